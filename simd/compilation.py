"""The end of compilation: from some moment on a process runs the machine code that it has.

numba announces what it is about to do, and whoever listens can refuse by raising. That holds for
every function, also for those that are declared later.

Source: numba.core.event.
"""

from __future__ import annotations

import gc
from typing import Any, Final

from simd import target
from simd.errors import ConfigError

# isort: split
from numba.core import event
from numba.core.dispatcher import Dispatcher

_RUN: Final = "numba:run_pass"
_LOCK: Final = "numba:compiler_lock"


class _Refusal(event.Listener):
    """Refuses what numba announces."""

    def __init__(self, message: str) -> None:
        self._message = message

    def on_start(self, event: Any) -> None:
        """Refuse."""
        details = event.data if isinstance(event.data, dict) else {}
        name = details.get("qualname") or "a function"
        raise ConfigError(f"{name} {self._message}")

    def on_end(self, event: Any) -> None:
        """Let it end."""


def forbid_compilation() -> None:
    """Refuse to compile from now on; what is in the cache is still loaded.

    What would be compiled raises ConfigError.
    """
    folder = target.cache_folder(target.TARGET)
    event.register(_RUN, _Refusal(f"is not among the prepared kernels in {folder}"))  # type: ignore[no-untyped-call]


def end_compilation() -> int:
    """Refuse to compile and to load from now on; return how many functions were told.

    A call with other types than a function was compiled for raises TypeError, anything else that
    would be compiled or loaded raises ConfigError.
    """
    found = [each for each in gc.get_objects() if isinstance(each, Dispatcher)]
    for dispatcher in found:
        if dispatcher.signatures:
            dispatcher.disable_compile()
    event.register(_LOCK, _Refusal("comes too late: nothing is compiled or loaded any more"))  # type: ignore[no-untyped-call]
    return len(found)
