"""How the weights of a model are kept: all in memory, or window by window (README.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

from engine.errors import ConfigError

Mode = Literal["full", "stream", "verified-stream"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)

DEFAULT_WINDOW_BYTES: Final = 32 << 20
MIN_WINDOW_BYTES: Final = 1 << 16
MAX_WINDOW_BYTES: Final = 1 << 34


@dataclass(frozen=True, slots=True)
class Residency:
    """How weights are kept.

    Attributes:
        mode: `full`, `stream` or `verified-stream`.
        window_bytes: most bytes of weights that are computed with at a time, 2^16 .. 2^34.
        keep_layers: how many layers stay, the one that is computed included, at least 1.
        drop_page_cache: whether what was read of the file is to leave the system's cache, too.
    """

    mode: Mode = "full"
    window_bytes: int = DEFAULT_WINDOW_BYTES
    keep_layers: int = 1
    drop_page_cache: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be; ConfigError."""
        if self.mode not in MODES:
            raise ConfigError(f"there is no residency {self.mode!r}; there are {', '.join(MODES)}")
        if not MIN_WINDOW_BYTES <= self.window_bytes <= MAX_WINDOW_BYTES:
            raise ConfigError(
                f"a window has {MIN_WINDOW_BYTES} to {MAX_WINDOW_BYTES} bytes, "
                f"not {self.window_bytes}"
            )
        if self.keep_layers < 1:
            raise ConfigError(f"at least one layer is kept, not {self.keep_layers}")


FULL: Final = Residency()
