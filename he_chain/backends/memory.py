"""How much memory this machine has to give, before gigabytes of keys are made."""

from __future__ import annotations

from pathlib import Path

from he_chain.errors import BackendError


def available_bytes() -> int | None:
    """Return the memory that can be had without swapping; None where the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line[:13] == "MemAvailable:")
    except (OSError, StopIteration, ValueError):
        return None


def check_memory(needed_bytes: int, name: str) -> None:
    """Refuse to go on where less memory is available than needed.

    Raises:
        BackendError: too little, or it is not known how much.
    """
    if not needed_bytes:
        return
    available = available_bytes()
    if available is None:
        raise BackendError(f"{name}: needs {needed_bytes >> 20} MiB; what is available is unknown")
    if available < needed_bytes:
        raise BackendError(
            f"{name}: needs {needed_bytes >> 20} MiB of memory, {available >> 20} MiB available"
        )
