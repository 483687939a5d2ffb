"""From the tokenizer in a GGUF file's metadata to a tokenizer.json.

Byte-level BPE only (`tokenizer.ggml.model` = gpt2). Control tokens become special tokens, which
text of a user never turns into; tokens of the type "user-defined" are matched in text but are not
special; unused ones and the filling behind the vocabulary are left out.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from engine.config import TokenizerConfig
from engine.convert.checkpoint import Text
from engine.convert.files import shown
from engine.convert.pretokenizers import PreTokenizer, pre_tokenizer
from engine.convert.settings import Settings
from engine.convert.tokenizer import check_text, check_vocabulary, load_tokenizer
from engine.errors import ConversionError, UnsupportedError

_PREFIX: Final = "tokenizer.ggml."

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED = 1, 2, 3, 4, 5
_TYPES: Final = frozenset({_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED})

_ENDS: Final = frozenset(
    {"<|endoftext|>", "<|end_of_text|>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>"}
)
"""Control tokens that end an answer whatever the metadata say: a GGUF file names only one, where
the original checkpoint's generation_config.json may list several."""


class _Vocabulary(NamedTuple):
    """Tokens that a tokenizer.json holds, by id."""

    plain: dict[int, str]
    control: dict[int, str]
    user_defined: dict[int, str]


def read_text(metadata: Settings, vocab_size: int, *, embeds: bool = False) -> Text:
    """Build the tokenizer and find the special ids and the chat template.

    Args:
        metadata: All keys of the file.
        vocab_size: Rows of the embedding.
        embeds: Whether the model makes vectors of texts, whose end may then be marked.

    Raises:
        ConversionError: The tokenizer is missing, damaged, or does not fit the embedding.
        UnsupportedError: It is of a kind that is not supported; the message names it.
    """
    model = metadata.optional_text(_PREFIX + "model")
    if model is None or _PREFIX + "tokens" not in metadata:
        raise ConversionError("GGUF: the file has no tokenizer")
    if model != "gpt2":
        raise UnsupportedError(f"GGUF: the tokenizer model {shown(model)} is not supported")
    rule = pre_tokenizer(metadata.optional_text(_PREFIX + "pre"))
    adds_end = metadata.optional_boolean(_PREFIX + "add_eos_token") or False
    if adds_end and not embeds:
        raise UnsupportedError(f"GGUF: {_PREFIX}add_eos_token is not supported")
    for key in ("add_space_prefix", "add_sep_token", "remove_extra_whitespaces"):
        if metadata.optional_boolean(_PREFIX + key):
            raise UnsupportedError(f"GGUF: {_PREFIX}{key} is not supported")
    tokens = _strings(metadata, "tokens")
    if len(tokens) != vocab_size:
        raise ConversionError(f"GGUF: {len(tokens)} tokens for an embedding of {vocab_size} rows")
    vocabulary = _sort(metadata, tokens)
    merges = _read_merges(metadata, vocabulary)
    document = _document(rule, vocabulary, merges)
    tokenizer_json = json.dumps(
        document, ensure_ascii=False, sort_keys=True, separators=(",", ":")
    ).encode("utf-8")
    used = {**vocabulary.plain, **vocabulary.control, **vocabulary.user_defined}
    tokenizer = load_tokenizer(tokenizer_json)
    check_vocabulary(tokenizer, vocab_size)
    if any(tokenizer.id_to_token(i) != token for i, token in used.items()):
        raise ConversionError("GGUF: the tokens do not make a consistent tokenizer")
    bos = metadata.optional_integer(_PREFIX + "bos_token_id", 0, vocab_size - 1)
    add_bos = metadata.optional_boolean(_PREFIX + "add_bos_token")
    config = TokenizerConfig(
        bos_id=bos,
        eos_ids=_ending_ids(metadata, vocabulary.control, vocab_size),
        add_bos=bos is not None and (rule.add_bos if add_bos is None else add_bos),
        embedding_end_id=(
            metadata.integer(_PREFIX + "eos_token_id", 0, vocab_size - 1) if adds_end else None
        ),
    )
    template = metadata.optional_text("tokenizer.chat_template")
    return check_text(
        Text(config, tokenizer_json, None if template is None else template.encode("utf-8"))
    )


def _strings(metadata: Settings, key: str) -> tuple[str, ...]:
    value = metadata.raw(_PREFIX + key)
    if not isinstance(value, tuple) or not all(isinstance(item, str) for item in value):
        raise ConversionError(f"GGUF: {_PREFIX}{key} is not a list of strings")
    return value


def _sort(metadata: Settings, tokens: tuple[str, ...]) -> _Vocabulary:
    """Sort tokens by their types; without types the named special ids are control tokens."""
    types = metadata.raw(_PREFIX + "token_type")
    if types is None:
        special = {metadata.raw(f"{_PREFIX}{name}_token_id") for name in ("bos", "eos", "padding")}
        types = tuple(_CONTROL if i in special else _NORMAL for i in range(len(tokens)))
    if not isinstance(types, tuple) or len(types) != len(tokens) or not _TYPES.issuperset(types):
        raise ConversionError(f"GGUF: {_PREFIX}token_type does not fit the tokens")
    vocabulary = _Vocabulary({}, {}, {})
    ids: dict[str, int] = {}
    for i, (token, kind) in enumerate(zip(tokens, types, strict=True)):
        if kind == _UNUSED or (kind == _USER_DEFINED and token == f"[PAD{i}]"):
            continue
        if not token:
            raise ConversionError(f"GGUF: token {i} is empty")
        if token in ids:
            raise ConversionError(f"GGUF: tokens {ids[token]} and {i} are the same")
        ids[token] = i
        if kind == _NORMAL:
            vocabulary.plain[i] = token
        elif kind == _USER_DEFINED:
            vocabulary.user_defined[i] = token
        else:
            vocabulary.control[i] = token
    return vocabulary


def _read_merges(metadata: Settings, vocabulary: _Vocabulary) -> list[list[str]]:
    """Read the merges; none may lead to a control token, or text of a user could become one."""
    plain = {*vocabulary.plain.values(), *vocabulary.user_defined.values()}
    control = set(vocabulary.control.values())
    if any(len(token) == 1 for token in control):
        raise ConversionError("GGUF: a control token is a single character of the byte alphabet")
    merges = []
    for merge in _strings(metadata, "merges"):
        left, _, right = merge.partition(" ")
        if not left or not right or " " in right:
            raise ConversionError(f"GGUF: the merge '{shown(merge)}' is not of two tokens")
        if left + right in control:
            raise ConversionError(f"GGUF: the merge '{shown(merge)}' makes a control token")
        if not {left, right, left + right} <= plain:
            raise ConversionError(f"GGUF: the merge '{shown(merge)}' names an unknown token")
        merges.append([left, right])
    return merges


def _document(
    rule: PreTokenizer, vocabulary: _Vocabulary, merges: list[list[str]]
) -> dict[str, object]:
    """Assemble a tokenizer.json.

    Added tokens that continue the ids of the plain ones stay outside the model's vocabulary, where
    no path through the model can reach them; others have to be in it to keep their ids.
    """
    added = {**vocabulary.control, **vocabulary.user_defined}
    model_tokens = dict(vocabulary.plain)
    first_added = len(model_tokens)
    apart = set(model_tokens) == set(range(first_added)) and set(added) == set(
        range(first_added, first_added + len(added))
    )
    if not apart:
        model_tokens |= added
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": i,
                "content": added[i],
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": i in vocabulary.control,
            }
            for i in sorted(added)
        ],
        "normalizer": rule.normalizer,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": list(rule.steps)},
        "post_processor": None,
        "decoder": {
            "type": "ByteLevel",
            "add_prefix_space": True,
            "trim_offsets": True,
            "use_regex": True,
        },
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": rule.ignore_merges,
            "vocab": {token: i for i, token in model_tokens.items()},
            "merges": merges,
        },
    }


def _ending_ids(metadata: Settings, control: dict[int, str], vocab_size: int) -> tuple[int, ...]:
    ids = {i for i, token in control.items() if token in _ENDS}
    for name in ("eos", "eot", "eom"):
        i = metadata.optional_integer(f"{_PREFIX}{name}_token_id", 0, vocab_size - 1)
        if i is not None:
            ids.add(i)
    return tuple(sorted(ids))
