"""Log-probabilities in the two shapes of the interface: of the chat, and of continued texts."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

LEAST: Final = -9999.0
"""Stands for minus infinity, which JSON has not."""


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One token of an answer.

    token: its bytes, perhaps half a character. logprob: natural logarithm. top: the likeliest
    tokens with theirs, by falling probability.
    """

    token: bytes
    logprob: float
    top: tuple[tuple[bytes, float], ...]


class TextOffsets:
    """Where each token of one answer begins, in characters of the answer's text."""

    def __init__(self) -> None:
        """Start at the beginning of the answer."""
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._characters = 0

    def push(self, token: bytes) -> int:
        """Take the next token; return how many characters were complete before it."""
        before = self._characters
        self._characters += len(self._decoder.decode(token))
        return before


def chat_logprobs(tokens: Sequence[TokenLogprob] | None) -> dict[str, object] | None:
    """Return the shape of the chat.

    `token` shows what is no whole character as U+FFFD; `bytes` is exact.
    """
    if tokens is None:
        return None
    content = [
        {
            **_entry(token.token, token.logprob),
            "top_logprobs": [_entry(data, logprob) for data, logprob in token.top],
        }
        for token in tokens
    ]
    return {"content": content, "refusal": None}


def _entry(data: bytes, logprob: float) -> dict[str, object]:
    return {
        "token": data.decode("utf-8", "replace"),
        "logprob": max(logprob, LEAST),
        "bytes": list(data),
    }


def legacy_logprobs(
    tokens: Sequence[TokenLogprob] | None, offsets: TextOffsets
) -> dict[str, object] | None:
    r"""Return the shape of continued texts, where tokens are the names of members.

    A token that is no whole character is written `bytes:\xe2\x80`, so that no two have one name.
    """
    if tokens is None:
        return None
    return {
        "tokens": [_name(token.token) for token in tokens],
        "token_logprobs": [max(token.logprob, LEAST) for token in tokens],
        "top_logprobs": [
            {_name(data): max(logprob, LEAST) for data, logprob in token.top} for token in tokens
        ],
        "text_offset": [offsets.push(token.token) for token in tokens],
    }


def _name(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)
