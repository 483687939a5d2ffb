"""What a process does for itself around its start: its environment, and its memory."""

from __future__ import annotations

import gc
import os
import resource
import sys
from collections.abc import MutableMapping
from typing import Final, NamedTuple

_BYTECODE: Final = "PYTHONDONTWRITEBYTECODE"
_UNSET: Final = {
    "OPENSSL_CONF": "it can load code into libcrypto that no list of software names",
    "OPENSSL_MODULES": "libcrypto would load its providers from there",
    "OPENSSL_ENGINES": "libcrypto would load code from there",
    "SSLKEYLOGFILE": "keys would be written there",
    "PYTHONINSPECT": "the process would go on after its end, at a prompt",
    "PYTHONBREAKPOINT": "it names code to call",
    "PYTHONTRACEMALLOC": "it keeps a record of all memory",
}
"""Settings that are removed, and why."""

_UNSET_PREFIX: Final = "NUMBA_"
_OURS: Final = frozenset(
    {"NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_CACHE_DIR", "NUMBA_CACHE_LOCATOR_CLASSES"}
)


class MemoryReport(NamedTuple):
    """How much of the weights stays in memory.

    resident_bytes: weights in private memory. locked_bytes: of these, what is never swapped.
    limit_bytes: how much the process may lock, None without a limit.
    """

    resident_bytes: int
    locked_bytes: int
    limit_bytes: int | None

    @property
    def is_locked(self) -> bool:
        """Whether all of them are."""
        return self.locked_bytes == self.resident_bytes


def clean_environment(environment: MutableMapping[str, str] | None = None) -> list[str]:
    """Remove settings that could bring in other code; return a line for each that was there.

    Call it before libcrypto and numba are loaded.

    Args:
        environment: by default that of this process.
    """
    where = os.environ if environment is None else environment
    lines = []
    for name in sorted(where):
        if name in _UNSET:
            lines.append(f"{name} in the environment is not used: {_UNSET[name]}")
        elif name.startswith(_UNSET_PREFIX) and name not in _OURS:
            lines.append(f"{name} in the environment is not used: it changes the compiler")
        else:
            continue
        del where[name]
    return lines


def keep_bytecode() -> None:
    """Write no bytecode from now on, nor in programs that are started: the files stay as they are.

    The list of software names bytecode too, because it is what runs.
    """
    sys.dont_write_bytecode = True
    os.environ[_BYTECODE] = "1"


def raise_memory_limit() -> int | None:
    """Allow this process to lock as much memory as it may allow itself; None is no limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (hard, hard))
    return None if hard == resource.RLIM_INFINITY else hard


def no_core_dumps() -> None:
    """Write no image of this process's memory to the disk, whatever happens."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def settle() -> None:
    """Collect what the start has left, and let later collections leave what is there alone."""
    gc.collect()
    gc.freeze()
