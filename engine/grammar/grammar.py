"""A compiled grammar, and its course along the ids of one answer (S15)."""

from __future__ import annotations

import numpy as np
from llguidance import LLMatcher

from engine.errors import SamplingError
from engine.sampling.choice import Mask


class Grammar:
    """What answers may be. Any number of answers may be under way at once."""

    def __init__(self, matcher: LLMatcher, vocab_size: int) -> None:
        """Keep a matcher that has not taken anything yet."""
        self._matcher = matcher
        self._vocab_size = vocab_size

    def start(self) -> Constraint:
        """Return the constraint of a new answer."""
        return Constraint(self._matcher.deep_copy(), self._vocab_size)


class Constraint:
    """Which id may come next. Ask for the mask at every place, in order, then push the choice.

    The limits of the search are counted from the beginning of an answer, so that asking in another
    order could hit them elsewhere.
    """

    def __init__(self, matcher: LLMatcher, vocab_size: int) -> None:
        """Start before the first id."""
        self._matcher = matcher
        self._vocab_size = vocab_size

    def mask(self) -> Mask:
        """Return bool[vocab_size], True for the ids that may come next.

        Raises:
            SamplingError: none may, or the grammar is too complex here.
        """
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        if self._matcher.is_error():
            raise SamplingError("the grammar cannot be followed any further")
        allowed = np.unpackbits(bits, bitorder="little", count=self._vocab_size)
        return allowed.view(np.bool_)

    def push(self, token_id: int) -> None:
        """Take the id that was chosen.

        Raises:
            SamplingError: it was not allowed.
        """
        if not self._matcher.consume_token(token_id):
            raise SamplingError("the grammar does not allow this token")

    @property
    def is_complete(self) -> bool:
        """Whether the answer is finished and nothing may follow."""
        return self._matcher.is_stopped() and not self._matcher.is_error()
