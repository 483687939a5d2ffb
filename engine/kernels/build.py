"""What a kernel is: a C function that a program calls by address.

Every kernel has the signature `int64 (instruction, step, thread)`: the address of its instruction
record (see `engine.kernels.program`), the address of the step's table, and the number of the
calling thread. All threads call every kernel; they share its work through the counter in the
instruction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from simd.build import Compiled, inline, signature
from simd.code import Emit

_ARITY: Final = 3
SIGNATURE: Final = signature(_ARITY)


class Kernel(Compiled):
    """A kernel of programs."""


def body(emit: Emit) -> Any:
    """Return `inline` of a whole kernel: `emit(code, instruction, step, thread)`."""
    return inline(emit, _ARITY)


def kernel(function: Callable[[int, int, int], int]) -> Kernel:
    """Declare a kernel."""
    return Kernel(function, _ARITY)
