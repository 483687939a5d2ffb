"""Where threads inside compiled code meet, and the loop in which workers wait for the next program.

Shared state is int32[128], one cache line (16 words) per variable:

    0 arrivals   16 generation   32 sleepers   48 command generation   64 command sleepers

Memory ordering. A thread's writes before a barrier must be visible to every thread after it. Each
arrival is a read-modify-write with acquire-release order on `arrivals`; the last one thereby
synchronises with all earlier ones (they form one release sequence). It resets `arrivals` and then
increments `generation` with sequentially consistent order, a release; the others leave only after
an acquire load of the new `generation`. So every write before any arrival happens before every
read after any departure. The reset of `arrivals` is ordered before the increment by that release,
so no thread can arrive at the next barrier before it.

Sleeping. A sleeper increments `sleepers`, then the kernel compares `generation` under its own lock
before it suspends. The waker increments `generation`, then reads `sleepers`. All four are
sequentially consistent (the kernel's lock is a full fence), so either the waker sees the sleeper
or the sleeper sees the new generation; no wake-up is lost.
"""

from __future__ import annotations

from typing import Final

from engine.kernels.machine import sleep_while, spin_hint, wake_all, yield_processor
from simd.code import I32, I64, Code, Val

ARRIVALS, GENERATION, SLEEPERS, COMMAND, COMMAND_SLEEPERS = (64 * n for n in range(5))
STATE_WORDS: Final = 128

# Rounds of waiting before a thread lets others run. Where every thread has a core, the others
# arrive within microseconds and giving the core away costs a scheduler's time slice; where threads
# share cores, whoever spins keeps the one that is waited for from running.
SPINS_OWN_CORE: Final = 1000  # 20 to 40 us, by what a spin hint takes
SPINS_SHARED_CORE: Final = 50
_YIELDS: Final = 300  # about 100 us of letting others run before the thread sleeps


def _atomic_load(code: Code, address: Val, order: str = "acquire") -> Val:
    pointer = code.builder.inttoptr(address.ir, I32.as_pointer())
    return code.val(code.builder.load_atomic(pointer, order, 4))


def _atomic_add(code: Code, address: Val, amount: int, order: str = "seq_cst") -> Val:
    pointer = code.builder.inttoptr(address.ir, I32.as_pointer())
    return code.val(code.builder.atomic_rmw("add", pointer, code.const(I32, amount).ir, order))


def wait_for_change(code: Code, word: Val, sleepers: Val, seen: Val, spins: Val) -> None:
    """Return once the int32 at `word` is not `seen`: spin, then yield, then sleep."""
    rounds = code.var(code.i64(0))
    with code.forever() as token:
        code.leave_if(_atomic_load(code, word).differs(seen), token)
        count = rounds.get()
        rounds.set(count + 1)
        with code.choose(count < spins) as (spin, other):
            with spin:
                spin_hint(code)
            with other, code.choose(count < spins + _YIELDS) as (give_way, sleep):
                with give_way:
                    yield_processor(code)
                with sleep:
                    _atomic_add(code, sleepers, 1)
                    sleep_while(code, word, seen)
                    _atomic_add(code, sleepers, -1)


def announce(code: Code, word: Val, sleepers: Val) -> None:
    """Increment the int32 at `word` and wake whoever sleeps on it."""
    _atomic_add(code, word, 1)
    with code.when(_atomic_load(code, sleepers, "seq_cst").differs(0)):
        wake_all(code, word)


def barrier(code: Code, state: Val, num_threads: Val, spins: Val) -> None:
    """Wait until all threads have called this as often as the caller."""
    seen = _atomic_load(code, state + GENERATION)
    arrived = _atomic_add(code, state + ARRIVALS, 1, "acq_rel").zext(I64)
    with code.choose(arrived.equals(num_threads - 1)) as (last, earlier):
        with last:
            code.store(code.const(I32, 0), state + ARRIVALS, align=4)
            announce(code, state + GENERATION, state + SLEEPERS)
        with earlier:
            wait_for_change(code, state + GENERATION, state + SLEEPERS, seen, spins)


def command_generation(code: Code, state: Val) -> Val:
    """Read the number of the newest command."""
    return _atomic_load(code, state + COMMAND)
