"""Why a log refuses: its content is not what it must be, or it cannot be used just now."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from crypto.errors import PolicyError, UnavailableError

DAMAGE_REASONS: Final = frozenset(
    {
        *("corrupted", "missing-segment", "other-log", "truncated", "older-than-anchor", "forked"),
        *("anchor-missing", "anchor-damaged", "unknown-key"),
    }
)
UNAVAILABLE_REASONS: Final = frozenset({"locked", "clock", "full", "failed", "closed", "archive"})


class LogDamageError(PolicyError):
    """What is in the files is no log that may be continued; nothing was changed.

    Attributes:
        reason: one of `DAMAGE_REASONS`.
        file: the file that shows it, if one does.
        index: the first entry that is bad or lost, if one is.
    """

    def __init__(
        self, reason: str, message: str, *, file: Path | None = None, index: int | None = None
    ) -> None:
        """Keep the code, say the line with file and index."""
        where = "" if file is None else f"{file}: "
        at = "" if index is None else f" (entry {index})"
        super().__init__(reason, f"{where}{message}{at}")
        self.file = file
        self.index = index


class LogUnavailableError(UnavailableError):
    """The log cannot do it now, and says nothing about what it holds.

    Attributes:
        reason: one of `UNAVAILABLE_REASONS`.
    """

    def __init__(self, reason: str, message: str) -> None:
        """Keep the code and say the line."""
        super().__init__(message)
        self.reason = reason
