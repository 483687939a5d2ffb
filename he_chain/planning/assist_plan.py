"""The plan of protocol `assist`: levels, ranges, memory, bytes and work, before a key is made.

It follows from a model's shape, the parameters and the ranges alone, so that both sides and whoever
verifies a run compute the same one; a run names it by its digest. What a plan counts, a run has to
count as well: a test compares.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, Final

from crypto.labels import HE_PLAN
from crypto.sm3 import sm3
from engine.config import ModelConfig
from he_chain.calib import Ranges
from he_chain.errors import LevelError, PlanError
from he_chain.layout import Shape
from he_chain.packing import Packing
from he_chain.parameters import Parameters
from he_chain.planning.costs import Costs, ciphertext_file_bytes
from he_chain.planning.sizes import ciphertext_bytes, evaluation_keys_bytes
from he_chain.records.claims import security_line
from he_chain.roles import assist_steps as steps
from he_chain.wire import NO_LAYER

WORK_LEVEL: Final = 1  # of products and of the cache: each product takes one level
_BASE_BYTES: Final = 128 << 20  # interpreter, NumPy and SEAL


@dataclass(frozen=True)
class PlannedExchange:
    """One question to the key holder and its answer."""

    kind: str
    sent: int
    """Ciphertexts, at level 0."""
    answered: int
    answer_level: int


@dataclass(frozen=True)
class PlannedHop:
    """A hop at the last of some positions."""

    kind: str
    exchanges: tuple[PlannedExchange, ...]
    counts: dict[str, int]
    """Operations of the evaluator; diagonals that are all zero would be fewer."""
    bytes_up: int
    bytes_down: int
    seconds: float
    """Of both sides, one core each, by the table in costs.py."""


@dataclass(frozen=True)
class AssistPlan:
    """What a run will take."""

    protocol: str
    model_digest: str
    calibration_digest: str
    parameters: Parameters
    security: str
    positions: int
    rotations: tuple[int, ...]
    key_bytes: int
    memory_bytes: int
    """Of the evaluator, at most."""
    first: PlannedHop
    """Layer 0, which begins with the embedding."""
    layer: PlannedHop
    """Every other layer."""
    fin: PlannedHop

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON can say it."""
        return {**asdict(self), "digest": self.digest().hex()}

    def digest(self) -> bytes:
        """Return the 32 bytes by which a run names it; estimates are left out."""
        stands_on = [
            self.protocol,
            self.model_digest,
            self.calibration_digest,
            asdict(self.parameters),
            self.security,
            self.rotations,
            [asdict(hop)["exchanges"] for hop in (self.first, self.layer, self.fin)],
        ]
        return sm3(HE_PLAN + json.dumps(stands_on, sort_keys=True).encode("ascii"))


def plan_assist(
    config: ModelConfig,
    parameters: Parameters,
    ranges: Ranges,
    *,
    backend: str = "seal",
    positions: int = 1,
    max_memory_bytes: int | None = None,
    costs: Costs | None = None,
) -> AssistPlan:
    """Return the plan of a run, or refuse it.

    Args:
        config: of the model.
        parameters: of the scheme.
        ranges: of what is decrypted.
        backend: `seal`, or `mock`, whose security is none.
        positions: how many tokens the last hop attends to.
        max_memory_bytes: of the evaluator.
        costs: seconds of operations.

    Raises:
        LevelError: the chain is too short; names the operation.
        RangeError: a value may not fit level 0; names the tensor.
        SecurityError: the parameters do not have 128 bits.
        PlanError: the model does not fit the ring, or its evaluator the memory.
    """
    if parameters.num_levels < WORK_LEVEL:
        raise LevelError(
            f"{steps.QKV}: a product takes one level, and the chain has {parameters.num_levels}"
        )
    security = security_line(parameters, backend, "assist")
    ranges.check_fit(parameters)
    packing = Packing(config, parameters.num_slots)
    memory = _memory_bytes(config, packing, parameters)
    if max_memory_bytes is not None and memory > max_memory_bytes:
        raise PlanError(f"the evaluator may need {memory} bytes of {max_memory_bytes}")
    table = Costs() if costs is None else costs
    hops = [_hop(packing, parameters, table, layer, positions) for layer in (0, 1, NO_LAYER)]
    return AssistPlan(
        protocol="assist",
        model_digest=ranges.model_digest.hex(),
        calibration_digest=ranges.digest().hex(),
        parameters=parameters,
        security=security,
        positions=positions,
        rotations=tuple(sorted(packing.rotations)),
        key_bytes=evaluation_keys_bytes(parameters, len(packing.rotations)),
        memory_bytes=memory,
        first=hops[0],
        layer=hops[1],
        fin=hops[2],
    )


def _hop(
    packing: Packing, parameters: Parameters, costs: Costs, layer: int, positions: int
) -> PlannedHop:
    blocks = packing.num_blocks(positions)
    sent = {
        steps.EMBED: 0,
        steps.QKV: packing.qkv.num_blocks,
        steps.SCORES: blocks,
        steps.GLU: packing.glu.num_blocks,
        steps.LOGITS: packing.head.num_blocks,
    }
    answered = {steps.QKV: 3, steps.SCORES: blocks, steps.LOGITS: 0}
    exchanges = tuple(
        PlannedExchange(
            kind, sent.get(kind, 1), answered.get(kind, 1), 0 if kind == steps.EMBED else WORK_LEVEL
        )
        for kind in steps.exchanges(layer)
    )
    counts = _fin_counts(packing) if layer == NO_LAYER else _lay_counts(packing, blocks)
    up = sum(e.sent for e in exchanges) * ciphertext_file_bytes(parameters, 0)
    down = sum(
        e.answered * ciphertext_file_bytes(parameters, e.answer_level, seeded=True)
        for e in exchanges
    )
    return PlannedHop(
        kind="fin" if layer == NO_LAYER else "lay",
        exchanges=exchanges,
        counts=dict(counts),
        bytes_up=up,
        bytes_down=down,
        seconds=round(_seconds(counts, exchanges, parameters, costs), 3),
    )


def _lay_counts(packing: Packing, blocks: int) -> Counter[str]:
    config = packing.config
    counts: Counter[str] = Counter()
    for shape in (packing.qkv, packing.output, packing.glu, packing.down):
        counts.update(_product(shape))
    counts["encodes"] += 2 + packing.qkv.num_blocks + packing.glu.num_blocks
    counts["rotations"] += blocks * _sums(config.head_dim)
    counts["rotations"] += _sums(packing.block_positions)
    counts["ct_ct"] += 2 * blocks
    counts["rescales"] += 2 * blocks
    return counts


def _fin_counts(packing: Packing) -> Counter[str]:
    counts = _product(packing.head)
    counts["encodes"] += 1 + packing.head.num_blocks
    return counts


def _product(shape: Shape) -> Counter[str]:
    blocks = shape.num_blocks
    diagonals = blocks * shape.diagonals
    return Counter(
        rotations=shape.baby - 1 + blocks * (shape.giant - 1 + _sums(shape.copies)),
        ct_pt=diagonals,
        encodes=diagonals,
        rescales=blocks,
    )


def _sums(count: int) -> int:
    """Return the rotations that adding `count` blocks of slots takes."""
    return count.bit_length() - 1 + count.bit_count() - 1


def _seconds(
    counts: Counter[str],
    exchanges: tuple[PlannedExchange, ...],
    parameters: Parameters,
    costs: Costs,
) -> float:
    kinds = (("rotations", costs.rotation), ("ct_pt", costs.ct_pt), ("ct_ct", costs.ct_ct))
    work = sum(
        counts[name] * cost.seconds(parameters, WORK_LEVEL)
        for name, cost in (*kinds, ("encodes", costs.encode))
    )
    for one in exchanges:
        work += one.sent * costs.decrypt.seconds(parameters, 0)
        work += one.answered * costs.encrypt.seconds(parameters, one.answer_level)
    return work


def _memory_bytes(config: ModelConfig, packing: Packing, parameters: Parameters) -> int:
    """Return a bound: keys, a layer's weights and their copies, the head, rotated ciphertexts."""
    hidden, inner = config.hidden_size, config.intermediate_size
    rows = packing.attention_width + 2 * packing.key_width
    layer = hidden * (rows + packing.attention_width + 3 * inner)
    head = hidden * config.vocab_size
    rotated = max(s.baby for s in (packing.qkv, packing.glu, packing.down)) + 16
    return (
        _BASE_BYTES
        + evaluation_keys_bytes(parameters, len(packing.rotations))
        + 3 * 8 * layer
        + 2 * 8 * head
        + rotated * ciphertext_bytes(parameters, WORK_LEVEL)
    )
