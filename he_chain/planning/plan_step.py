"""Steps of a block as a planner sees them: what they read, what they take, what they give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from he_chain.errors import PlanError


@dataclass(frozen=True)
class Operand:
    """A value that a step reads."""

    value: str
    levels: int
    """How much higher it has to be than the result."""
    gain: float = 1.0
    """About so much of its error comes through."""


@dataclass(frozen=True)
class Step:
    """One step: no refresh happens inside."""

    name: str
    operands: tuple[Operand, ...]
    output: str
    bound: float
    """Largest magnitude of any slot of the result, by calibration."""
    fit_error: float = 0.0
    """What a fitted polynomial adds to the result's error."""
    rotations: int = 0
    ct_ct: int = 0
    ct_pt: int = 0

    @property
    def levels(self) -> int:
        """Most levels that one of its operands needs."""
        return max(operand.levels for operand in self.operands)


@dataclass(frozen=True)
class Block:
    """Steps in the order in which they run."""

    name: str
    inputs: tuple[tuple[str, float], ...]
    """Values that come in, with their bounds; a refresh made them."""
    steps: tuple[Step, ...]
    output: str
    """The value that the next block starts with."""

    def __post_init__(self) -> None:
        """Check that every value is made once, and before it is read.

        Raises:
            PlanError: one is not.
        """
        known = {name for name, _ in self.inputs}
        for step in self.steps:
            for operand in step.operands:
                if operand.value not in known:
                    raise PlanError(f"{step.name} reads {operand.value}, which nothing made")
            if step.output in known:
                raise PlanError(f"{step.name} makes {step.output}, which there is already")
            known.add(step.output)
        if self.output not in known:
            raise PlanError(f"{self.name} gives {self.output}, which nothing made")

    @property
    def bounds(self) -> dict[str, float]:
        """The bound of every value."""
        return dict(self.inputs) | {step.output: step.bound for step in self.steps}

    def last_use(self) -> dict[str, int]:
        """Return the index of the last step that reads each value; the output's is behind all."""
        found = {operand.value: i for i, step in enumerate(self.steps) for operand in step.operands}
        found[self.output] = len(self.steps)
        return found


def depth(block: Block, steps: Sequence[Step] | None = None) -> int:
    """Return the levels that a block takes without any refresh."""
    taken = {name: 0 for name, _ in block.inputs}
    for step in block.steps if steps is None else steps:
        taken[step.output] = max(taken[o.value] + o.levels for o in step.operands)
    return max(taken.values())
