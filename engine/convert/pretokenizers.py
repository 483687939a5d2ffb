"""How the byte-level BPE of each family splits text before merging, as parts of a tokenizer.json.

GGUF files name the rule in `tokenizer.ggml.pre` and do not contain it. A wrong rule gives other
ids for the same text without any error, so a name that is not listed here is refused.

Source: the published tokenizer.json of GPT-2, SmolLM2, Qwen2 and Llama 3; for `default` the rule
of llama.cpp, which alone defines it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.convert.files import shown
from engine.errors import UnsupportedError

_CONTRACTIONS_ANY_CASE: Final = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORD: Final = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SIGNS_AND_SPACE: Final = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_GPT2: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


class PreTokenizer(NamedTuple):
    """The parts of a tokenizer.json that belong to a family.

    `add_bos` is what holds when the file does not say it.
    """

    steps: tuple[dict[str, object], ...]
    normalizer: dict[str, object] | None = None
    ignore_merges: bool = False
    add_bos: bool = False


def _split(pattern: str) -> dict[str, object]:
    return {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }


def _bytes(*, use_regex: bool) -> dict[str, object]:
    """The step that writes each byte as one character; with `use_regex` it splits as GPT-2 does."""
    return {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": use_regex,
    }


_GPT2_STEPS = (_bytes(use_regex=True),)

_SMOLLM = PreTokenizer(({"type": "Digits", "individual_digits": True}, *_GPT2_STEPS))

_QWEN2 = PreTokenizer(
    (
        _split(rf"{_CONTRACTIONS_ANY_CASE}|{_WORD}|\p{{N}}|{_SIGNS_AND_SPACE}"),
        _bytes(use_regex=False),
    ),
    normalizer={"type": "NFC"},
)

_LLAMA3 = PreTokenizer(
    (
        _split(rf"{_CONTRACTIONS_ANY_CASE}|{_WORD}|\p{{N}}{{1,3}}|{_SIGNS_AND_SPACE}"),
        _bytes(use_regex=False),
    ),
    ignore_merges=True,
    add_bos=True,
)

_DEFAULT = PreTokenizer(
    (
        _split(r"[\p{P}\$\+<=>\^~\|]+"),
        _split(_GPT2),
        _split(r"\p{N}+"),
        _split(r"[0-9][0-9][0-9]"),
        _bytes(use_regex=False),
    )
)

PRE_TOKENIZERS: Final[dict[str, PreTokenizer]] = {
    "default": _DEFAULT,
    "gpt-2": PreTokenizer(_GPT2_STEPS),
    "smollm": _SMOLLM,
    "qwen2": _QWEN2,
    "deepseek-r1-qwen": _QWEN2,
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
}
"""Rules by the names that GGUF files use for them."""


def pre_tokenizer(name: str | None) -> PreTokenizer:
    """Return the rule of that name; files from before there were names use `default`.

    Raises:
        UnsupportedError: The name is not listed.
    """
    if name is None:
        return _DEFAULT
    if name not in PRE_TOKENIZERS:
        raise UnsupportedError(f"GGUF: the pre-tokenizer {shown(name)} is not supported")
    return PRE_TOKENIZERS[name]
