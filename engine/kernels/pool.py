"""A persistent pool of threads that execute programs together inside compiled code."""

from __future__ import annotations

import os
import threading
from typing import Any, Final

from simd import target  # sets numba's target: must come before numba

# isort: split
import numpy as np
from llvmlite import ir
from numba import njit, types

from engine.errors import ConfigError
from engine.kernels.barrier import (
    COMMAND,
    COMMAND_SLEEPERS,
    SPINS_OWN_CORE,
    SPINS_SHARED_CORE,
    STATE_WORDS,
    announce,
    barrier,
    command_generation,
    wait_for_change,
)
from engine.kernels.build import SIGNATURE
from engine.kernels.machine import set_float_control
from engine.kernels.program import (
    BARRIER,
    COUNTER,
    KERNEL,
    STEP_PRIVATE,
    UNLESS_PRIVATE,
    WORDS,
)
from simd.build import inline
from simd.code import I32, I64, Code, Val

# Words of the job: what the workers are to execute.
_PROGRAM, _COUNT, _STEP, _NUM_THREADS, _STATE, _SPINS = range(6)
_STOP: Final = -1
MAX_THREADS: Final = 256


def _execute(code: Code, job: Val, thread: Val) -> None:
    program, count = code.word(job, _PROGRAM), code.word(job, _COUNT)
    step, num_threads = code.word(job, _STEP), code.word(job, _NUM_THREADS)
    state, spins = code.word(job, _STATE), code.word(job, _SPINS)
    set_float_control(code)
    function_type = ir.FunctionType(I64, [I64, I64, I64])
    with code.loop(0, count) as index:
        instruction = program + index * (8 * WORDS)
        address = code.word(instruction, KERNEL)
        function = code.builder.inttoptr(address.ir, function_type.as_pointer())
        code.builder.call(function, [instruction.ir, step.ir, thread.ir])
        when = code.word(instruction, BARRIER)
        skipped = when.equals(UNLESS_PRIVATE).select(code.word(step, STEP_PRIVATE), code.i64(0))
        with code.when(when > skipped * UNLESS_PRIVATE):
            barrier(code, state, num_threads, spins)
    barrier(code, state, num_threads, spins)


def _emit_run(code: Code, job: Val) -> None:
    program, count, state = (code.word(job, n) for n in (_PROGRAM, _COUNT, _STATE))
    with code.loop(0, count) as index:
        code.store(code.i64(0), program + index * (8 * WORDS) + 8 * COUNTER, align=8)
    announce(code, state + COMMAND, state + COMMAND_SLEEPERS)
    with code.when(count.differs(_STOP)):
        _execute(code, job, code.i64(0))


def _emit_work(code: Code, job: Val, thread: Val, first_seen: Val) -> None:
    state = code.word(job, _STATE)
    seen = code.var(first_seen)
    with code.forever() as token:
        wait_for_change(
            code,
            state + COMMAND,
            state + COMMAND_SLEEPERS,
            seen.get().trunc(I32),
            code.word(job, _SPINS),
        )
        seen.set(command_generation(code, state).zext(I64))
        code.leave_if(code.word(job, _COUNT).equals(_STOP), token)
        _execute(code, job, thread)


_run_body = inline(_emit_run, 1)
_work_body = inline(_emit_work, 3)


@njit(types.int64(types.int64), nogil=True, cache=target.CACHED)
def _run(job: int) -> Any:
    return _run_body(job)


@njit(SIGNATURE, nogil=True, cache=target.CACHED)
def _work(job: int, thread: int, first_seen: int) -> Any:
    return _work_body(job, thread, first_seen)


def _serve(job: np.ndarray, state: np.ndarray, thread: int) -> None:
    """Work until the pool is closed; shared memory lives as long as a thread that looks at it."""
    _work(job.ctypes.data, thread, 0)
    del state


class Pool:
    """`num_threads` threads, the caller's among them, that run one program at a time.

    Not re-entrant: one thread calls `run`, `close` ends the workers.
    """

    def __init__(self, num_threads: int) -> None:
        """Start `num_threads - 1` workers.

        Raises:
            ConfigError: fewer than one or more than 256 threads.
        """
        if not 1 <= num_threads <= MAX_THREADS:
            raise ConfigError(f"threads must be between 1 and {MAX_THREADS}, not {num_threads}")
        self.num_threads = num_threads
        self._state = np.zeros(STATE_WORDS, np.int32)
        self._job = np.zeros(8, np.int64)
        self._job[_NUM_THREADS] = num_threads
        owns_cores = num_threads <= len(os.sched_getaffinity(0))
        self._job[_SPINS] = SPINS_OWN_CORE if owns_cores else SPINS_SHARED_CORE
        self._job[_STATE] = self._state.ctypes.data
        self._workers = [
            threading.Thread(
                target=_serve, args=(self._job, self._state, n), daemon=True, name=f"kernel-{n}"
            )
            for n in range(1, num_threads)
        ]
        for worker in self._workers:
            worker.start()

    def run(self, program: np.ndarray, step: np.ndarray) -> None:
        """Execute a program; returns when every thread has finished.

        Args:
            program: int64[instructions, 32] as of `Program.to_array`; counters are reset.
            step: int64[16], the step's table.

        Raises:
            ConfigError: the pool was closed.
        """
        if len(self._workers) != self.num_threads - 1:
            raise ConfigError("the pool of threads is closed")
        self._job[_PROGRAM] = program.ctypes.data
        self._job[_COUNT] = len(program)
        self._job[_STEP] = step.ctypes.data
        _run(self._job.ctypes.data)

    def close(self) -> None:
        """End the workers."""
        if self._workers:
            self._job[_COUNT] = _STOP
            _run(self._job.ctypes.data)
            for worker in self._workers:
                worker.join()
            self._workers = []
