"""A tokenizer with as many tokens as the model has rows, made by rule, and a chat template.

Tokens are the 256 bytes, syllables of a consonant and a vowel, and words of two and three of them,
each with its merge: the document has the size and the work of a real one, and what a model of
random weights says can be read aloud.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Final

from engine.config import TokenizerConfig
from engine.convert.checkpoint import Text
from engine.errors import ConfigError
from engine.text.alphabet import CHARACTERS

CONTROL_TOKENS: Final = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
"""Ids 0, 1 and 2; the first and the last end an answer."""

MIN_VOCABULARY: Final = len(CONTROL_TOKENS) + len(CHARACTERS)

TEMPLATE: Final = (
    "{% for message in messages %}"
    "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

_CONSONANTS: Final = "bcdfghjklmnpqrstvwxz"
_VOWELS: Final = "aeiou"
_VOCABULARY: Final = "<vocabulary>"
_MERGES: Final = "<merges>"
"""What stands in the document for its two long parts, which are written piece by piece."""

_SPACE: Final = CHARACTERS[ord(" ")]


def synthetic_text(vocab_size: int) -> Text:
    """Return tokenizer.json, special ids and template for an embedding of `vocab_size` rows.

    Every id below `vocab_size` has a token, as far as there are words: 2,020,359.

    Raises:
        ConfigError: fewer rows than bytes and control tokens.
    """
    if vocab_size < MIN_VOCABULARY:
        raise ConfigError(f"a vocabulary has at least {MIN_VOCABULARY} tokens, not {vocab_size}")
    document = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": token_id,
                "content": content,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for token_id, content in enumerate(CONTROL_TOKENS)
        ],
        "normalizer": None,
        "pre_tokenizer": _byte_level(),
        "post_processor": None,
        "decoder": _byte_level(),
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": _VOCABULARY,
            "merges": _MERGES,
        },
    }
    frame = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    before, _, rest = frame.partition(json.dumps(_VOCABULARY))
    between, _, after = rest.partition(json.dumps(_MERGES))
    parts = (before, _vocabulary(vocab_size), between, _merge_list(vocab_size), after)
    config = TokenizerConfig(bos_id=None, eos_ids=(0, 2), add_bos=False)
    return Text(config, b"".join(_utf8(part) for part in parts), TEMPLATE.encode())


def _byte_level() -> dict[str, object]:
    return {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }


def _vocabulary(vocab_size: int) -> Iterator[str]:
    """Yield the object of all names and their ids, as JSON."""
    names = chain(CONTROL_TOKENS, CHARACTERS, map("".join, _merges()))
    for token_id, name in enumerate(islice(names, vocab_size)):
        yield f"{',' if token_id else '{'}{json.dumps(name, ensure_ascii=False)}:{token_id}"
    yield "}"


def _merge_list(vocab_size: int) -> Iterator[str]:
    """Yield the list of all merges, as JSON; no letter of theirs needs an escape."""
    yield "["
    for number, pair in enumerate(islice(_merges(), vocab_size - MIN_VOCABULARY)):
        yield f'{"," if number else ""}"{" ".join(pair)}"'
    yield "]"


def _utf8(texts: Iterable[str]) -> bytes:
    """Join without holding all of them at once."""
    joined = bytearray()
    for text in texts:
        joined += text.encode()
    return bytes(joined)


def _merges() -> Iterator[tuple[str, str]]:
    """Yield the merges in order: the token of each is made of two that came before it."""
    yield from ((consonant, vowel) for consonant in _CONSONANTS for vowel in _VOWELS)
    syllables = [consonant + vowel for consonant in _CONSONANTS for vowel in _VOWELS]
    yield from ((first, second) for first in syllables for second in syllables)
    words = [first + second for first in syllables for second in syllables]
    yield from ((_SPACE, word) for word in words)
    yield from ((_SPACE + word, syllable) for word in words for syllable in syllables)
    yield from ((word, syllable) for word in words for syllable in syllables)
