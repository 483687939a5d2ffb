"""Where a block is refreshed: a shortest path over (step, levels of the values that still live).

Each step is taken from every reachable state, with every choice of operands refreshed just before
it; a refresh earlier than its first use would never be cheaper. The length of a path is seconds:
work, plus what rounds, ciphertexts and bytes are worth. Afterwards every level is lowered to what
the rest of the path needs, since lower levels are cheaper and shorter on the way.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from he_chain.errors import LevelError, RangeError
from he_chain.parameters import Parameters
from he_chain.planning.costs import Costs, ciphertext_file_bytes
from he_chain.planning.plan_step import Block, Step, depth
from he_chain.primes import chain_primes

State = tuple[tuple[str, int], ...]
"""(value, level) of what a later step reads, by name."""


@dataclass(frozen=True)
class Refreshed:
    """One ciphertext that goes to the key holder and comes back."""

    value: str
    at_level: int
    to_level: int


@dataclass(frozen=True)
class PlannedStep:
    """A step, what is refreshed before it, and the level of its result."""

    name: str
    refreshes: tuple[Refreshed, ...]
    level: int


@dataclass(frozen=True)
class _Path:
    """Steps so far, the last one first."""

    seconds: float
    before: _Path | None
    refreshed: tuple[str, ...] = ()


class Levels:
    """At which levels values of a size fit, with two bits to spare, plain or blinded."""

    def __init__(self, parameters: Parameters, blind_bits: int) -> None:
        """Take a chain and the size of the blinding, of which 0 is none."""
        self._scale = 2.0**parameters.scale_bits
        self._blinding = 2.0**blind_bits if blind_bits else 0.0
        moduli, modulus = [], 1
        for prime in chain_primes(parameters)[:-1]:
            modulus *= prime
            moduli.append(math.log2(modulus))
        self._log_moduli = moduli

    def holding(self, name: str, bound: float) -> int:
        """Return the lowest level at which bound * scale < modulus / 4.

        Raises:
            RangeError: not even the highest.
        """
        wanted = math.log2(max(bound, 2.0**-60) * self._scale) + 2
        for level, bits in enumerate(self._log_moduli):
            if wanted < bits:
                return level
        raise RangeError(f"{name}: values up to {bound:.3g} do not fit any level's modulus")

    def refreshing(self, name: str, bound: float) -> int:
        """Return the lowest level at which the value and its blinding fit.

        Raises:
            RangeError: not even the highest.
        """
        return self.holding(f"{name}, blinded", bound + self._blinding)


def place(
    block: Block, parameters: Parameters, costs: Costs, blind_bits: int
) -> tuple[tuple[PlannedStep, ...], dict[str, int]]:
    """Return the steps with their refreshes, and the levels at which the inputs are to come.

    The block's output is left at a level at which it can be refreshed.

    Raises:
        LevelError: a step needs more levels than there are; names it.
        RangeError: a value does not fit.
    """
    levels = Levels(parameters, blind_bits)
    bounds, last = block.bounds, block.last_use()
    lowest = {name: levels.refreshing(name, bound) for name, bound in bounds.items()}
    least = {name: levels.holding(name, bound) for name, bound in bounds.items()}
    top = parameters.num_levels
    start: State = tuple(sorted((name, top) for name, _ in block.inputs))
    frontier = {start: _Path(0.0, None)}
    for i, step in enumerate(block.steps):
        following: dict[State, _Path] = {}
        for state, path in frontier.items():
            for refreshed, given in _choices(step, dict(state), lowest, top):
                level = min(given[o.value] - o.levels for o in step.operands)
                if level < least[step.output]:
                    continue
                seconds = step_seconds(step, level, parameters, costs)
                for name in refreshed:
                    # values that need more blinding than others are worth keeping
                    seconds += _refresh_length(parameters, costs, lowest[name], top)
                    seconds += costs.ciphertext_seconds * math.log2(max(1.0, bounds[name])) / 16
                seconds += costs.round_seconds * len(refreshed)
                given[step.output] = level
                new = tuple(sorted((v, n) for v, n in given.items() if last.get(v, -1) > i))
                found = _Path(path.seconds + seconds, path, refreshed)
                if new not in following or following[new].seconds > found.seconds:
                    following[new] = found
        if not following:
            raise LevelError(_too_deep(block, step, top, lowest))
        frontier = following
    ends = [
        path
        for state, path in frontier.items()
        if dict(state)[block.output] >= lowest[block.output]
    ]
    if not ends:
        raise LevelError(f"{block.output}: no level is left at which it could be refreshed")
    best = min(ends, key=lambda path: path.seconds)
    return _lowered(block, _choices_of(best), lowest, least)


def step_seconds(step: Step, level: int, parameters: Parameters, costs: Costs) -> float:
    """Return the work of a step whose result is at a level."""
    before = min(level + step.levels, parameters.num_levels)
    # a polynomial's products are spread over its levels
    middle = (level + 1 + before) // 2 if step.levels > 1 else before
    return (
        step.rotations * costs.rotation.seconds(parameters, level + (step.levels > 0))
        + step.ct_ct * costs.ct_ct.seconds(parameters, middle)
        + step.ct_pt
        * (costs.ct_pt.seconds(parameters, middle) + costs.encode.seconds(parameters, middle))
    )


def _choices(
    step: Step, state: dict[str, int], lowest: dict[str, int], top: int
) -> Iterator[tuple[tuple[str, ...], dict[str, int]]]:
    """Yield what may be refreshed before a step, and the levels then."""
    names = sorted({o.value for o in step.operands})
    able = [n for n in names if lowest[n] <= state[n] < top]
    for count in range(len(able) + 1):
        for refreshed in combinations(able, count):
            yield refreshed, state | dict.fromkeys(refreshed, top)


def _refresh_length(parameters: Parameters, costs: Costs, at: int, to: int) -> float:
    sent = ciphertext_file_bytes(parameters, at)
    sent += ciphertext_file_bytes(parameters, to, seeded=True)
    work = costs.refresh_seconds(parameters, at, to)
    return work + costs.ciphertext_seconds + sent / costs.bytes_per_second


def _choices_of(path: _Path) -> list[tuple[str, ...]]:
    """Return what is refreshed before each step."""
    found = []
    here: _Path | None = path
    while here is not None and here.before is not None:
        found.append(here.refreshed)
        here = here.before
    return found[::-1]


def _lowered(
    block: Block,
    choices: list[tuple[str, ...]],
    lowest: dict[str, int],
    least: dict[str, int],
) -> tuple[tuple[PlannedStep, ...], dict[str, int]]:
    """Return the steps at the lowest levels that what follows allows, walking backwards."""
    need = {block.output: lowest[block.output]}
    planned = []
    for step, refreshed in zip(reversed(block.steps), reversed(choices), strict=True):
        level = max(need.pop(step.output, 0), least[step.output])
        for operand in step.operands:
            wanted = max(level + operand.levels, least[operand.value])
            need[operand.value] = max(need.get(operand.value, 0), wanted)
        done = []
        for name in refreshed:
            done.append(Refreshed(name, lowest[name], need[name]))
            need[name] = lowest[name]
        planned.append(PlannedStep(step.name, tuple(done), level))
    return tuple(planned[::-1]), need


def _too_deep(block: Block, step: Step, top: int, lowest: dict[str, int]) -> str:
    """Return why no path leads through a step."""
    reason = f"{step.name} takes {step.levels} levels of a chain of {top}"
    blinded = max(lowest[o.value] for o in step.operands)
    return (
        f"{reason}, where its operands can be refreshed from level {blinded} on; "
        f"{block.name} takes {depth(block)} levels in all"
    )
