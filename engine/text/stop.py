"""Stop strings (X6): where they end an answer, whatever the tokens that bring them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from engine.errors import ConfigError

MAX_STOPS: Final = 16
MAX_STOP_CHARACTERS: Final = 1000


class Release(NamedTuple):
    """Text that no stop string can take back, and the stop string that ended the answer."""

    text: str
    stop: str | None


class StopMatcher:
    """Finds the first stop string in text that comes in pieces.

    The match that ends first wins; of those that end at the same character, the longest. Text that
    may be the beginning of a stop string is held back until that is decided.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        """Prepare the search.

        Raises:
            ConfigError: more than 16 strings, an empty one, or one of more than 1000 characters.
        """
        if len(stops) > MAX_STOPS:
            raise ConfigError(f"more than {MAX_STOPS} stop strings")
        if not all(0 < len(stop) <= MAX_STOP_CHARACTERS for stop in stops):
            raise ConfigError(f"a stop string is empty or longer than {MAX_STOP_CHARACTERS}")
        # The longest first: of two matches at the same character it is found first.
        self._searches = [_Search(stop) for stop in sorted(stops, key=len, reverse=True)]
        self._held = ""
        self._is_over = False

    def push(self, text: str) -> Release:
        """Take the next piece of text; return what it releases.

        After a match nothing more is released.
        """
        if self._is_over:
            return Release("", None)
        start = len(self._held)
        self._held += text
        for end in range(start, len(self._held)):
            # Every search must see the character, also after one has matched.
            matches = [s.stop for s in self._searches if s.advance(self._held[end])]
            if matches:
                self._is_over = True
                released, self._held = self._held[: end + 1 - len(matches[0])], ""
                return Release(released, matches[0])
        keep = max((search.length for search in self._searches), default=0)
        cut = len(self._held) - keep
        released, self._held = self._held[:cut], self._held[cut:]
        return Release(released, None)

    def finish(self) -> str:
        """Return the text held back when the answer ends without a match."""
        held, self._held = self._held, ""
        self._is_over = True
        return held


class _Search:
    """The state of one string's search: how many of its characters the text so far ends with.

    Source: D. E. Knuth, J. H. Morris, V. R. Pratt, "Fast pattern matching in strings", 1977.
    """

    def __init__(self, stop: str) -> None:
        self.stop = stop
        self.length = 0
        # _borders[n] is the length of the longest proper prefix of stop[:n] that also ends it.
        self._borders = [0, 0]
        border = 0
        for character in stop[1:]:
            border = self._next(border, character)
            self._borders.append(border)

    def _next(self, length: int, character: str) -> int:
        while length and (length == len(self.stop) or self.stop[length] != character):
            length = self._borders[length]
        return length + (self.stop[length] == character)

    def advance(self, character: str) -> bool:
        """Take one character; return whether the string is now complete."""
        self.length = self._next(self.length, character)
        return self.length == len(self.stop)
