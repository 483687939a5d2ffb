"""The record that all threads execute: a list of instructions, one kernel call each.

A model file writes its forward pass as instructions once; a step then runs the whole list inside
compiled code, so that no Python call stands between two operations. An instruction is 32 int64
words:

    0 address of the kernel       1 barrier after it (NEVER, ALWAYS, UNLESS_PRIVATE)
    2 work counter                5 index of the base address that is added to word 8
    8.. arguments, their meaning is the kernel's

Word 5 lets a layer's weights lie anywhere: the record holds an offset inside the extent, the
step's table of bases says where the extent is now (residency). Base 0 is address 0.

A *private* step has a single row: operations on rows are then done by every thread for itself, and
the barriers behind them fall away.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np

from engine.kernels.build import Kernel
from simd.code import Code, Val

WORDS: Final = 32
KERNEL, BARRIER, COUNTER, BASE, ARGUMENTS = 0, 1, 2, 5, 8

# Words of the step's table.
STEP_ROWS: Final = 0
STEP_IDS: Final = 1
STEP_POSITIONS: Final = 2
STEP_BLOCK_TABLES: Final = 3
STEP_NUM_TILES: Final = 4
STEP_TILES: Final = 5
STEP_NUM_OUTPUTS: Final = 6
STEP_OUTPUT_ROWS: Final = 7
STEP_BASES: Final = 8
STEP_ERRORS: Final = 9
STEP_TRACE: Final = 10
STEP_PRIVATE: Final = 11
STEP_LEAVES: Final = 12
STEP_HASHER: Final = 13
STEP_WORDS: Final = 16

# When all threads wait for each other after an instruction.
NEVER, ALWAYS, UNLESS_PRIVATE = range(3)


class Program:
    """A growing list of instructions and the array that holds them."""

    def __init__(self) -> None:
        """Start empty."""
        self._rows: list[list[int]] = []
        self.names: list[str] = []

    def __len__(self) -> int:
        """Return the number of instructions."""
        return len(self._rows)

    def add(self, kernel: Kernel, *arguments: int, base: int = 0, barrier: int = ALWAYS) -> None:
        """Append one instruction.

        Args:
            kernel: what to run.
            arguments: its arguments, at most 24.
            base: index into the step's table of bases, added to the first argument when it runs.
            barrier: when all threads wait for each other after it: NEVER, ALWAYS, UNLESS_PRIVATE.
        """
        row = [0] * WORDS
        row[KERNEL], row[BARRIER], row[BASE] = kernel.address, barrier, base
        row[ARGUMENTS : ARGUMENTS + len(arguments)] = [int(a) for a in arguments]
        if len(row) != WORDS:
            raise ValueError(f"{kernel.name}: too many arguments")
        self._rows.append(row)
        self.names.append(kernel.name)

    def to_array(self) -> np.ndarray:
        """Return the program as int64[instructions, 32]."""
        return np.array(self._rows, dtype=np.int64).reshape(-1, WORDS)


def argument(code: Code, instruction: Val, index: int) -> Val:
    """Read argument `index` of an instruction inside a kernel body."""
    return code.word(instruction, ARGUMENTS + index)


def weights_address(code: Code, instruction: Val, step: Val) -> Val:
    """Return the address of the instruction's weights: its first argument plus its base."""
    bases = code.word(step, STEP_BASES)
    base = code.load(bases.type, bases + code.word(instruction, BASE) * 8, align=8)
    return argument(code, instruction, 0) + base


def grab(code: Code, instruction: Val, total: Val, grain: int | Val) -> Grab:
    """Share `total` units of work in pieces of `grain`; a context that yields (start, stop)."""
    return Grab(code, instruction, total, grain)


@contextmanager
def grab_ahead(code: Code, instruction: Val, total: Val) -> Iterator[tuple[Val, Val]]:
    """Share `total` units one by one; yields (unit, the thread's next one or one past the end)."""
    counter, one = instruction + 8 * COUNTER, code.i64(1)
    unit = code.var(code.fetch_add(counter, one))
    with code.forever() as token:
        current = unit.get()
        code.leave_if(current >= total, token)
        following = code.fetch_add(counter, one)
        yield current, following
        unit.set(following)


class Grab:
    """A loop in which each thread takes the next piece of an instruction's work."""

    def __init__(self, code: Code, instruction: Val, total: Val, grain: int | Val) -> None:
        """Prepare the loop; see `grab`."""
        self._code, self._total = code, total
        self._counter = instruction + 8 * COUNTER
        self._grain = grain if isinstance(grain, Val) else code.i64(grain)
        self._loop = code.forever()

    def __enter__(self) -> tuple[Val, Val]:
        code = self._code
        token = self._loop.__enter__()
        start = code.fetch_add(self._counter, self._grain)
        code.leave_if(start >= self._total, token)
        end = start + self._grain
        return start, (end < self._total).select(end, self._total)

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        self._loop.__exit__(None, None, None)
