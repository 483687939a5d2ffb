"""The pool: barriers, sharing of work, sleeping and waking, many pools, the end."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import ConfigError
from engine.kernels.build import body, kernel
from engine.kernels.pool import Pool
from engine.kernels.program import ALWAYS, NEVER, STEP_WORDS, Program, argument, grab
from engine.memory.buffers import address_of
from simd.code import Code, Val

CHECKOUT = Path(__file__).parents[3]
THREADS = (1, 2, 3, 8)
LINE_WORDS = 8  # one cache line for each thread's counter


def _tally(code: Code, instruction: Val, _step: Val, _thread: Val) -> None:
    """Arguments: counts int64[units], units, grain. Adds 1 to the count of each unit."""
    counts, units = argument(code, instruction, 0), argument(code, instruction, 1)
    pieces = grab(code, instruction, units, argument(code, instruction, 2))
    with pieces as (begin, end), code.loop(begin, end) as unit:
        code.fetch_add(counts + unit * 8, code.i64(1))


def _arrive(code: Code, instruction: Val, _step: Val, thread: Val) -> None:
    """Arguments: visits int64[threads, 8], wrong, threads. Counts the caller's visits.

    Behind a barrier every thread has made as many visits as the caller, or one more; what else is
    found is counted in `wrong`.
    """
    visits, wrong = argument(code, instruction, 0), argument(code, instruction, 1)
    mine = code.word(visits + thread * (8 * LINE_WORDS), 0)
    with code.loop(0, argument(code, instruction, 2)) as other:
        ahead = code.word(visits + other * (8 * LINE_WORDS), 0) - mine
        # Seen as unsigned, a thread that is behind is far ahead.
        code.fetch_add(wrong, (ahead >> 1).differs(0).zext(ahead.type))
    code.fetch_add(visits + thread * (8 * LINE_WORDS), code.i64(1))


_tally_body = body(_tally)
_arrive_body = body(_arrive)


@kernel
def tally(instruction: int, step: int, thread: int) -> Any:
    """Run `_tally`."""
    return _tally_body(instruction, step, thread)


@kernel
def arrive(instruction: int, step: int, thread: int) -> Any:
    """Run `_arrive`."""
    return _arrive_body(instruction, step, thread)


@contextmanager
def pool_of(num_threads: int) -> Iterator[Pool]:
    """Yield a pool that is closed afterwards."""
    pool = Pool(num_threads)
    try:
        yield pool
    finally:
        pool.close()


class Visits:
    """A program of visits, and what they found."""

    def __init__(self, num_threads: int, length: int, barrier: int = ALWAYS) -> None:
        self.counts = np.zeros((num_threads, LINE_WORDS), np.int64)
        self.wrong = np.zeros(1, np.int64)
        program = Program()
        arguments = address_of(self.counts), address_of(self.wrong), num_threads
        for _ in range(length):
            program.add(arrive, *arguments, barrier=barrier)
        self._program = program.to_array()
        self._step = np.zeros(STEP_WORDS, np.int64)

    def run(self, pool: Pool) -> None:
        """Run the program once."""
        pool.run(self._program, self._step)

    def check(self, total: int) -> None:
        """Every thread has made `total` visits, each at its time."""
        assert self.counts[:, 0].tolist() == [total] * len(self.counts)
        assert self.wrong[0] == 0


@pytest.mark.parametrize("num_threads", THREADS)
def test_barriers(num_threads: int) -> None:
    visits = Visits(num_threads, 20)
    with pool_of(num_threads) as pool:
        for number in range(1, 101):
            visits.run(pool)
            visits.check(20 * number)


def test_missing_barriers_are_seen() -> None:
    visits = Visits(2, 20_000, NEVER)
    with pool_of(2) as pool:
        time.sleep(0.02)  # the other thread sleeps, so that this one is ahead of it
        visits.run(pool)
    assert visits.counts[:, 0].tolist() == [20_000, 20_000]
    assert visits.wrong[0] > 0


@pytest.mark.parametrize("num_threads", THREADS)
@pytest.mark.parametrize(("units", "grain"), [(0, 1), (1, 1), (7, 3), (64, 64), (1000, 7)])
def test_each_unit_of_work_is_done_once(num_threads: int, units: int, grain: int) -> None:
    counts = np.zeros(max(units, 1), np.int64)
    program = Program()
    for barrier in (ALWAYS, NEVER, NEVER):
        program.add(tally, address_of(counts), units, grain, barrier=barrier)
    array, step = program.to_array(), np.zeros(STEP_WORDS, np.int64)
    with pool_of(num_threads) as pool:
        for _ in range(30):
            pool.run(array, step)
    assert (counts[:units] == 90).all()
    assert (counts[units:] == 0).all()


def test_an_empty_program() -> None:
    with pool_of(3) as pool:
        for _ in range(100):
            pool.run(Program().to_array(), np.zeros(STEP_WORDS, np.int64))


@pytest.mark.parametrize("num_threads", [2, 8])
def test_waking_after_any_idle_time(num_threads: int) -> None:
    visits = Visits(num_threads, 5)
    with pool_of(num_threads) as pool:
        pauses_s = [0.0, 1e-6, 1e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 5e-3] * 8 + [0.1]
        for number, pause_s in enumerate(pauses_s, 1):
            time.sleep(pause_s)
            visits.run(pool)
            visits.check(5 * number)


def test_idle_threads_sleep() -> None:
    visits = Visits(4, 5)
    with pool_of(4) as pool:
        visits.run(pool)
        time.sleep(0.05)
        before_s = time.process_time()
        time.sleep(0.5)
        assert time.process_time() - before_s < 0.1  # three spinning threads would take 1.5 s


def test_several_pools_at_once() -> None:
    pools = [Pool(n) for n in (2, 3, 1, 2)]
    visits = [Visits(pool.num_threads, 30) for pool in pools]

    def work(number: int) -> None:
        for _ in range(40):
            visits[number].run(pools[number])

    callers = [threading.Thread(target=work, args=(n,)) for n in range(len(pools))]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
        assert not caller.is_alive()
    for pool, visit in zip(pools, visits, strict=True):
        visit.check(30 * 40)
        pool.close()


def kernel_threads() -> int:
    """Return how many workers live."""
    return sum(thread.name.startswith("kernel-") for thread in threading.enumerate())


def test_close_ends_the_threads() -> None:
    before = kernel_threads()
    for pause_s in (0.0, 0.02):  # awake, and asleep
        pool = Pool(5)
        assert kernel_threads() == before + 4
        Visits(5, 3).run(pool)
        time.sleep(pause_s)
        pool.close()
        assert kernel_threads() == before
        pool.close()


def test_a_pool_that_never_ran_can_be_closed() -> None:
    before = kernel_threads()
    for _ in range(20):
        Pool(3).close()
    assert kernel_threads() == before


def test_a_closed_pool_refuses() -> None:
    pool = Pool(2)
    pool.close()
    with pytest.raises(ConfigError, match="closed"):
        Visits(2, 3).run(pool)


def test_pools_that_are_dropped_without_an_end_do_no_harm() -> None:
    # Their threads look at memory that others must not get. A process of its own: they stay.
    program = """
import gc
from tests.engine.kernels.test_threads import Pool, Visits
for _ in range(12):
    visits = Visits(3, 5)
    visits.run(Pool(3))
    visits.check(5)
    gc.collect()
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=CHECKOUT, timeout=120)


@pytest.mark.parametrize("num_threads", [0, -1, 257])
def test_numbers_of_threads_that_make_no_sense(num_threads: int) -> None:
    with pytest.raises(ConfigError, match="between 1 and 256"):
        Pool(num_threads)


def test_many_threads() -> None:
    for num_threads in (16, 64, 256):
        visits = Visits(num_threads, 10)
        with pool_of(num_threads) as pool:
            for number in range(1, 21):
                visits.run(pool)
                visits.check(10 * number)
