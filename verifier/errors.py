"""The two ways in which an input is refused, and what refuses."""

from __future__ import annotations

TYPE_CHECKING = False  # as of `typing`, which takes a tenth of the time to start
if TYPE_CHECKING:
    from typing import Any
else:
    Any = object
__all__ = ["DIGITS", "HEX", "LOWER", "PRINTABLE", "Any", "MalformedError", "UsageError"]
__all__ += ["require", "spelt"]

DIGITS, LOWER = "0123456789", "abcdefghijklmnopqrstuvwxyz"
HEX = DIGITS + "abcdef"
PRINTABLE = "".join(map(chr, range(32, 127)))


class MalformedError(Exception):
    """An input breaks a rule of its format: `rule` names it, `offset` is where."""

    def __init__(self, rule: str, offset: int = 0) -> None:
        super().__init__(f"{rule} at byte {offset}")
        self.rule = rule
        self.offset = offset


class UsageError(Exception):
    """The auditor's own inputs cannot be used, so there is no verdict."""


def require(holds: bool, rule: str, offset: int = 0) -> None:
    """Refuse an input for which a rule does not hold (MalformedError)."""
    if not holds:
        raise MalformedError(rule, offset)


def spelt(text: str, signs: str, most: int = 64, first: str = "") -> bool:
    """Return whether a text is 1 .. `most` of the signs, one of `first`, if any, in front."""
    # what begins and ends with none of the signs is left over by strip; `re` is slow to start
    return 0 < len(text) <= most and not text.strip(signs) and text[0] in (first or signs)
