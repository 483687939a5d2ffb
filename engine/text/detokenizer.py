"""Ids to text, one at a time, never half a character (X5)."""

from __future__ import annotations

import codecs

from engine.text.tokenizer import Tokenizer


class Detokenizer:
    """Decodes the ids of one answer as they come.

    The increments joined are what `Tokenizer.decode` gives for all ids, however the bytes of a
    character are spread over tokens: an incomplete character is held back until it is complete, or
    until it can no longer become one. No space is added or removed.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Start an answer."""
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token_id: int) -> str:
        """Return the text that this id completes."""
        return self._decoder.decode(self._tokenizer.output_bytes(token_id))

    def finish(self) -> str:
        """Return what an incomplete character at the end amounts to."""
        return self._decoder.decode(b"", final=True)
