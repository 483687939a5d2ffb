"""Byte-level BPE in which the text of a user never becomes a control token (X1 to X4).

A vocabulary is derived from tokenizer.json in which control tokens cannot be reached: they are no
added tokens, no merge leads to them, and in the model's vocabulary they have names that no text
has. All text is encoded with that. Control tokens enter a prompt only as ids, at the places where
`engine.text.template` proved that the template wrote them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from tokenizers import Tokenizer as Backend

from engine.config import TokenizerConfig
from engine.errors import TemplateError, UnsupportedError
from engine.text.alphabet import token_to_bytes
from engine.text.prompt import ControlToken, Prompt

_MAX_UNUSED_IDS: Final = 1 << 16
_UNUSED_BPE_OPTIONS: Final = (
    "dropout",
    "continuing_subword_prefix",
    "end_of_word_suffix",
    "byte_fallback",
)


class Tokenizer:
    """Encodes text and prompts, and decodes ids to bytes."""

    def __init__(self, tokenizer_json: bytes, config: TokenizerConfig) -> None:
        """Read a tokenizer.json.

        Args:
            tokenizer_json: as the VQF file holds it.
            config: special ids.

        Raises:
            UnsupportedError: it is damaged, or not byte-level BPE.
        """
        document = _parse(tokenizer_json)
        added = _added_tokens(document)
        self._names = _names(document, added)
        self.config = config
        self.vocab_size = len(self._names)
        self.control_tokens = tuple(
            _control_token(entry) for entry in added if not entry["content"].isspace()
        )
        self._control = {token.id: token for token in self.control_tokens}
        self._added = {entry["id"] for entry in added}
        try:
            self._backend = Backend.from_str(json.dumps(_without_control(document, self._control)))
        except Exception as error:  # the library raises nothing more precise
            raise UnsupportedError(f"tokenizer.json: {error}") from None
        for token_id in (config.bos_id, *config.eos_ids, config.embedding_end_id):
            if token_id is not None and self.name(token_id) is None:
                raise UnsupportedError(f"tokenizer.json has no token for the special id {token_id}")

    def name(self, token_id: int) -> str | None:
        """Return a token as the vocabulary writes it, or None if there is none with that id."""
        return self._names[token_id] if 0 <= token_id < self.vocab_size else None

    def encode(self, text: str) -> list[int]:
        """Encode text of a user: no id of a control token comes out (X2).

        Raises:
            TemplateError: the text holds half a surrogate pair, which UTF-8 cannot carry.
        """
        if not text:
            return []
        try:
            ids: list[int] = self._backend.encode(text, add_special_tokens=False).ids
        except TypeError:
            raise TemplateError("the text holds half a surrogate pair") from None
        if not self._control.keys().isdisjoint(ids):
            raise TemplateError("text of a user became a control token")
        return ids

    def encode_raw(self, text: str) -> list[int]:
        """Encode a prompt without a template: the model's first token, if any, and the text.

        Raises:
            TemplateError: as of `encode`.
        """
        bos_id = self.config.bos_id
        first = [bos_id] if self.config.add_bos and bos_id is not None else []
        return first + self.encode(text)

    def encode_embedding(self, text: str) -> list[int]:
        """Encode a text that becomes a vector: as a raw prompt, and the model's end, if any.

        Raises:
            TemplateError: as of `encode`.
        """
        end_id = self.config.embedding_end_id
        return self.encode_raw(text) + ([] if end_id is None else [end_id])

    def encode_prompt(self, prompt: Prompt) -> list[int]:
        """Encode a rendered conversation (X3).

        Raises:
            TemplateError: as of `encode`.
        """
        text, ids, position = prompt.text, list[int](), 0
        for start, end, token in prompt.markers:
            before = text[position:start]
            ids += self.encode(before.rstrip() if token.lstrip else before)
            ids.append(token.id)
            position = end
            if token.rstrip:
                position = len(text) - len(text[end:].lstrip())
        return ids + self.encode(text[position:])

    def token_bytes(self, token_id: int) -> bytes:
        """Return what a token stands for (X4); nothing for an id that has none."""
        name = self.name(token_id)
        if name is None:
            return b""
        if token_id in self._added:
            return name.encode("utf-8")
        return token_to_bytes(name) or name.encode("utf-8")

    def output_bytes(self, token_id: int) -> bytes:
        """Return what a token adds to an answer: nothing if it is special."""
        control = self._control.get(token_id)
        return b"" if control is not None and control.special else self.token_bytes(token_id)

    def decode(self, token_ids: Iterable[int]) -> str:
        """Return the text of an answer; what is not UTF-8 becomes U+FFFD."""
        return b"".join(map(self.output_bytes, token_ids)).decode("utf-8", errors="replace")


def _fail(what: str) -> UnsupportedError:
    return UnsupportedError(f"tokenizer.json: {what}")


def _parse(tokenizer_json: bytes) -> Any:  # noqa: ANN401
    try:
        document: Any = json.loads(tokenizer_json.decode("utf-8"))
    except (ValueError, RecursionError):
        raise _fail("not JSON in UTF-8") from None
    model = document.get("model") if isinstance(document, dict) else None
    if not isinstance(model, dict) or model.get("type") != "BPE":
        raise _fail("the model is not BPE")
    if not isinstance(model.get("vocab"), dict) or not isinstance(model.get("merges"), list):
        raise _fail("the model has no vocabulary or no merges")
    for option in _UNUSED_BPE_OPTIONS:
        if model.get(option):
            raise _fail(f"the option {option} is not supported")
    for part in ("pre_tokenizer", "decoder"):
        if not _has_byte_level(document.get(part)):
            raise _fail(f"the {part} is not byte-level")
    return document


def _has_byte_level(part: object) -> bool:
    if not isinstance(part, dict):
        return False
    steps = part.get("pretokenizers", part.get("decoders", []))
    if not isinstance(steps, list):
        return False
    return part.get("type") == "ByteLevel" or any(
        isinstance(step, dict) and step.get("type") == "ByteLevel" for step in steps
    )


def _added_tokens(document: dict[str, Any]) -> list[dict[str, Any]]:
    added = document.get("added_tokens", [])
    if not isinstance(added, list):
        raise _fail("added_tokens is not a list")
    for entry in added:
        if not isinstance(entry, dict) or type(entry.get("id")) is not int:
            raise _fail("an added token has no id")
        if not isinstance(entry.get("content"), str) or not entry["content"]:
            raise _fail("an added token has no content")
    if len({entry["content"] for entry in added}) != len(added):
        raise _fail("an added token is there twice")
    return added


def _names(document: dict[str, Any], added: Sequence[dict[str, Any]]) -> list[str | None]:
    """Return the tokens by id.

    Raises:
        UnsupportedError: two tokens share an id, or an id is out of range.
    """
    ids: dict[str, Any] = dict(document["model"]["vocab"])
    for entry in added:
        if ids.setdefault(entry["content"], entry["id"]) != entry["id"]:
            raise _fail(f"the added token {entry['id']} has another id in the vocabulary")
    limit = len(ids) + _MAX_UNUSED_IDS
    if not all(type(i) is int and 0 <= i < limit for i in ids.values()):
        raise _fail("an id is out of range")
    if len(set(ids.values())) != len(ids):
        raise _fail("two tokens have the same id")
    names: list[str | None] = [None] * (max(ids.values(), default=-1) + 1)
    for name, token_id in ids.items():
        names[token_id] = name
    return names


def _control_token(entry: dict[str, Any]) -> ControlToken:
    if entry.get("single_word"):
        raise _fail("an added token that must be a single word is not supported")
    return ControlToken(
        id=entry["id"],
        content=entry["content"],
        special=bool(entry.get("special")),
        lstrip=bool(entry.get("lstrip")),
        rstrip=bool(entry.get("rstrip")),
    )


def _without_control(document: dict[str, Any], control: dict[int, ControlToken]) -> dict[str, Any]:
    """Return a tokenizer.json in which no text leads to a control token."""
    model = document["model"]
    contents = {token.content for token in control.values()}
    # The byte-level alphabet has no NUL, so that no text has such a name.
    vocabulary = {
        f"\0{token_id}" if token_id in control else name: token_id
        for name, token_id in model["vocab"].items()
    }
    kept = [entry for entry in document.get("added_tokens", []) if entry["id"] not in control]
    # The library numbers an added token itself unless the model's vocabulary has it.
    vocabulary |= {entry["content"]: entry["id"] for entry in kept}
    merges = [
        [left, right]
        for left, right in _pairs(model["merges"])
        if left + right not in contents and left not in contents and right not in contents
    ]
    return {
        **document,
        "added_tokens": kept,
        "post_processor": None,
        "truncation": None,
        "padding": None,
        "model": {**model, "vocab": vocabulary, "merges": merges, "unk_token": None},
    }


def _pairs(merges: list[Any]) -> list[list[str]]:
    """Return merges, written as pairs or as two tokens with a space between, as pairs."""
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in merges]
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2:
            raise _fail("a merge is not two tokens")
        if not (isinstance(pair[0], str) and isinstance(pair[1], str)):
            raise _fail("a merge is not two tokens")
    return pairs
