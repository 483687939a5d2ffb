"""How kernels are made: Python that writes IR, compiled by numba into C functions over int64.

Everything goes in and out as int64: addresses, counts, bit patterns.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from simd import target  # sets numba's target: must come before numba

# isort: split
from llvmlite import ir
from numba import cfunc, types
from numba.extending import intrinsic

from simd.code import I64, Code, Emit


def signature(arity: int) -> Any:
    """Return numba's signature of a function of `arity` int64 values that returns one."""
    return types.int64(*[types.int64] * arity)


def inline(emit: Emit, arity: int) -> Any:
    """Turn a function that writes IR into one that numba code calls with int64 arguments.

    Args:
        emit: called as `emit(code, *values)`; returns the i64 result, or None for 0.
        arity: number of int64 arguments.
    """

    def definition(_context: Any, *_arguments: Any) -> Any:
        def lower(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            code = Code(builder)
            result = emit(code, *[code.val(a) for a in arguments])
            return ir.Constant(I64, 0) if result is None else result.ir

        return signature(arity), lower

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = ["context", *(f"argument_{i}" for i in range(arity))]
    definition.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, kind) for name in names]
    )
    return intrinsic(definition)


class Compiled:
    """A C function that is compiled (or loaded from the cache) when it is first asked for."""

    def __init__(self, function: Callable[..., int], arity: int) -> None:
        """Keep the numba-compilable function of `arity` int64 arguments."""
        self.function = function
        self.arity = arity
        self.name = function.__name__
        self._compiled: Any = None

    @property
    def compiled(self) -> Any:
        """The numba C function; compiles on first use."""
        if self._compiled is None:
            self._compiled = cfunc(signature(self.arity), cache=target.CACHED)(self.function)
        return self._compiled

    @property
    def address(self) -> int:
        """Where the machine code starts."""
        return int(self.compiled.address)
