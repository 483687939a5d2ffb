"""The plan of protocol `refresh`: what one layer-token takes, or why it cannot be, before a key.

It follows from a model's shape, the parameters and calibrated ranges alone. A run names it by its
digest, and the evaluator runs its steps at its levels.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Final

from crypto.labels import HE_PLAN
from crypto.sm3 import sm3
from he_chain.errors import PlanError, PrecisionError
from he_chain.parameters import Parameters
from he_chain.planning.costs import Costs, ciphertext_file_bytes
from he_chain.planning.error_estimate import expected_bits
from he_chain.planning.placement import PlannedStep, Refreshed, place, step_seconds
from he_chain.planning.plan_step import Block, depth
from he_chain.planning.sizes import ciphertext_bytes, evaluation_keys_bytes, key_switch_bytes
from he_chain.polynomial.design import LayerDesign
from he_chain.polynomial.steps import block_of
from he_chain.records.claims import security_line
from he_chain.refresh import MAX_BITS, Blinding

PROTOCOL: Final = "refresh"
_BASE_BYTES: Final = 128 << 20
"""Interpreter, NumPy and SEAL."""
_LIVE: Final = 6
"""Ciphertexts that a step holds beside its babies."""


@dataclass(frozen=True)
class RefreshPlan:
    """One layer-token."""

    protocol: str
    block: str
    backend: str
    parameters: Parameters
    security: str
    blind_bits: int
    depth: int
    """Levels that the block would take without any refresh."""
    entry_level: int
    """Of the layer's input, which the last of the refreshes gives."""
    steps: tuple[PlannedStep, ...]
    output: Refreshed
    """The refresh behind the last step, which makes the next layer's input."""
    joint_distance: float
    """What the key holder's view of the refreshes of a layer-token tells, at most."""
    expected_bits: float
    """Precision of the output, estimated."""
    rotations: tuple[int, ...]
    rotation_key_bytes: int
    """Of one rotation's key: 16 N k (k - 1) for k primes."""
    key_bytes: int
    memory_bytes: int
    """Of the evaluator, at most."""
    rounds: int
    """Exchanges with the key holder: one for each ciphertext."""
    bytes_up: int
    """To the key holder."""
    bytes_down: int
    seconds: float
    """Of both sides, one core each, by the table in costs.py."""

    @property
    def refreshes(self) -> tuple[Refreshed, ...]:
        """All refreshed ciphertexts of a layer-token, in order."""
        return (*(r for step in self.steps for r in step.refreshes), self.output)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON can say it."""
        return {**asdict(self), "digest": self.digest().hex()}

    def encode(self) -> bytes:
        """Return the canonical JSON of what a run stands on; estimates are left out."""
        stands_on = {
            "protocol": self.protocol,
            "block": self.block,
            "parameters": asdict(self.parameters),
            "security": self.security,
            "blind_bits": self.blind_bits,
            "entry_level": self.entry_level,
            "steps": [asdict(step) for step in self.steps],
            "output": asdict(self.output),
            "rotations": self.rotations,
        }
        return json.dumps(stands_on, sort_keys=True, separators=(",", ":")).encode("ascii")

    def digest(self) -> bytes:
        """Return the 32 bytes by which a run names it."""
        return sm3(HE_PLAN + self.encode())

    def __str__(self) -> str:
        """Return it as lines."""
        bits = f"{self.parameters.first_bits} + {self.parameters.num_levels} x "
        bits += f"{self.parameters.scale_bits} + {self.parameters.special_bits}"
        lines = [
            f"plan        {self.digest().hex()}",
            f"security    {self.security} ({bits})",
            f"block       {self.block}: {self.depth} levels in all, enters at {self.entry_level}",
            f"refreshes   {len(self.refreshes)} ciphertexts in {self.rounds} rounds, "
            f"{self.bytes_up / 1e6:.2f} MB up, {self.bytes_down / 1e6:.2f} MB down",
            f"blinding    {self.blind_bits} bits, joint statistical distance "
            f"{self.joint_distance:.2g}",
            f"precision   about {self.expected_bits:.1f} bits expected",
            f"keys        {len(self.rotations)} rotations, {self.rotation_key_bytes / 1e6:.1f} MB "
            f"each, {self.key_bytes / 1e6:.0f} MB in memory",
            f"memory      {self.memory_bytes / 1e6:.0f} MB at most",
            f"work        {self.seconds:.1f} s",
        ]
        for step in self.steps:
            lines += [_line(refreshed) for refreshed in step.refreshes]
            lines.append(f"  {step.name:<16} -> level {step.level}")
        return "\n".join([*lines, _line(self.output)])


def plan_refresh(
    design: LayerDesign,
    parameters: Parameters,
    *,
    blind_bits: int,
    backend: str = "seal",
    name: str = "layer",
    min_bits: float = 0.0,
    max_memory_bytes: int | None = None,
    costs: Costs | None = None,
) -> RefreshPlan:
    """Return the plan of one layer-token, or refuse it.

    Args:
        design: of the layer.
        parameters: of the scheme; the ring as the design's.
        blind_bits: of the blinding.
        backend: `seal`, or `mock`, whose security is none.
        name: of the block.
        min_bits: that have to be expected.
        max_memory_bytes: of the evaluator.
        costs: seconds of operations, and what rounds, ciphertexts and bytes are worth.

    Raises:
        LevelError: a step is one level too deep, whatever is refreshed; names it.
        RangeError: a value, or its blinding, does not fit; names it.
        SecurityError: the parameters do not have 128 bits.
        PrecisionError: less than `min_bits` is expected.
        PlanError: no room for the blinding in a number, for the grid in the ring, or for the
            evaluator in its memory.
    """
    if not 1 <= blind_bits <= MAX_BITS:
        raise PlanError(f"blinding of {blind_bits} bits is not in 1..{MAX_BITS}")
    if design.grid.num_slots != parameters.num_slots:
        raise PlanError(f"a design of {design.grid.num_slots} slots, not {parameters.num_slots}")
    security = security_line(parameters, backend, PROTOCOL)
    memory = memory_bytes(design, parameters)
    if max_memory_bytes is not None and memory > max_memory_bytes:
        raise PlanError(f"the evaluator may need {memory} bytes of {max_memory_bytes}")
    table = Costs() if costs is None else costs
    block = block_of(design, name)
    steps, inputs = place(block, parameters, table, blind_bits)
    output = Refreshed(block.output, _last_level(block, steps), inputs["x"])
    refreshed = (*(r for step in steps for r in step.refreshes), output)
    expected = expected_bits(block, steps, parameters)
    if expected < min_bits:
        raise PrecisionError(f"{expected:.1f} bits are expected of {min_bits}")
    bounds = block.bounds
    distances = [
        Blinding(blind_bits, bounds[r.value], parameters.num_slots).joint_distance
        for r in refreshed
    ]
    return RefreshPlan(
        protocol=PROTOCOL,
        block=name,
        backend=backend,
        parameters=parameters,
        security=security,
        blind_bits=blind_bits,
        depth=depth(block),
        entry_level=inputs["x"],
        steps=steps,
        output=output,
        joint_distance=min(1.0, sum(distances)),
        expected_bits=round(expected, 1),
        rotations=tuple(sorted(design.rotations)),
        rotation_key_bytes=key_switch_bytes(parameters),
        key_bytes=evaluation_keys_bytes(parameters, len(design.rotations)),
        memory_bytes=memory,
        rounds=len(refreshed),
        bytes_up=sum(ciphertext_file_bytes(parameters, r.at_level) for r in refreshed),
        bytes_down=sum(
            ciphertext_file_bytes(parameters, r.to_level, seeded=True) for r in refreshed
        ),
        seconds=_seconds(block, steps, refreshed, parameters, table),
    )


def memory_bytes(design: LayerDesign, parameters: Parameters) -> int:
    """Return the evaluator's memory, at most: keys, babies, diagonals' places, the cache."""
    products = (
        design.attention_product,
        design.output_product,
        design.gate_up_product,
        design.down_product,
    )
    babies = max(len(product.used_babies) for product in products)
    top = ciphertext_bytes(parameters, parameters.num_levels)
    places = sum(product.size_bytes for product in products)
    keys = evaluation_keys_bytes(parameters, len(design.rotations))
    return _BASE_BYTES + keys + (babies + _LIVE) * top + places


def _last_level(block: Block, steps: tuple[PlannedStep, ...]) -> int:
    """Return the level of the block's output."""
    made = {step.output: step.name for step in block.steps}
    return next(step.level for step in steps if step.name == made[block.output])


def _seconds(
    block: Block,
    steps: tuple[PlannedStep, ...],
    refreshed: tuple[Refreshed, ...],
    parameters: Parameters,
    costs: Costs,
) -> float:
    """Return the work of a placed block, at the levels that it has now."""
    work = sum(
        step_seconds(step, planned.level, parameters, costs)
        for step, planned in zip(block.steps, steps, strict=True)
    )
    return work + sum(costs.refresh_seconds(parameters, r.at_level, r.to_level) for r in refreshed)


def _line(refreshed: Refreshed) -> str:
    return f"  refresh {refreshed.value} at level {refreshed.at_level} to {refreshed.to_level}"
