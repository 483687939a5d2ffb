"""The decorators of the sampling kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar, cast

from simd import target  # sets numba's target: must come before numba

# isort: split
from numba import njit, types

P = ParamSpec("P")
R = TypeVar("R")

# Division follows IEEE-754 instead of raising; the interpreter lock is released.
_OPTIONS: Final[dict[str, Any]] = {"nogil": True, "error_model": "numpy"}


def compiled(signature: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:  # noqa: ANN401
    """Compile an entry point for one signature, at import, or load it from the cache."""
    return cast(
        "Callable[[Callable[P, R]], Callable[P, R]]",
        njit(signature, cache=target.CACHED, **_OPTIONS),
    )


def helper(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function as part of the entry points that call it: nothing to load by itself."""
    return cast("Callable[P, R]", njit(function, **_OPTIONS))


__all__ = ["compiled", "helper", "types"]
