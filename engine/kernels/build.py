"""How a kernel is made: a body that writes IR, compiled by numba into a C function.

Every kernel has the signature `int64 (instruction, step, thread)`: the address of its instruction
record (see `engine.kernels.program`), the address of the step's table, and the number of the
calling thread. All threads call every kernel; they share its work through the counter in the
instruction.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from engine.kernels import target  # noqa: F401  (sets numba's target: must come before numba)

# isort: split
from llvmlite import ir
from numba import cfunc, types
from numba.extending import intrinsic

from engine.kernels.simd import I64, Code, Val

SIGNATURE = types.int64(types.int64, types.int64, types.int64)
Emit = Callable[..., "Val | None"]


def inline(emit: Emit, arity: int) -> Any:
    """Turn a function that writes IR into one that numba code calls with int64 arguments.

    Args:
        emit: called as `emit(code, *values)`; returns the i64 result, or None for 0.
        arity: number of int64 arguments.
    """

    def definition(_context: Any, *_arguments: Any) -> Any:
        signature = types.int64(*[types.int64] * arity)

        def lower(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            code = Code(builder)
            result = emit(code, *[code.val(a) for a in arguments])
            return ir.Constant(I64, 0) if result is None else result.ir

        return signature, lower

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = ["context", *(f"argument_{i}" for i in range(arity))]
    definition.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, kind) for name in names]
    )
    return intrinsic(definition)


def body(emit: Emit) -> Any:
    """Return `inline` of a whole kernel: `emit(code, instruction, step, thread)`."""
    return inline(emit, 3)


class Kernel:
    """A kernel that is compiled (or loaded from the cache) when its address is first asked for."""

    def __init__(self, function: Callable[[int, int, int], int]) -> None:
        """Keep the numba-compilable function of (instruction, step, thread)."""
        self.function = function
        self.name = function.__name__
        self._compiled: Any = None

    @property
    def compiled(self) -> Any:
        """The numba C function; compiles on first use."""
        if self._compiled is None:
            self._compiled = cfunc(SIGNATURE, cache=True)(self.function)
        return self._compiled

    @property
    def address(self) -> int:
        """Where the machine code starts."""
        return int(self.compiled.address)


def kernel(function: Callable[[int, int, int], int]) -> Kernel:
    """Declare a kernel."""
    return Kernel(function)
