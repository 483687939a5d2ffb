"""What a run of the protocol `boot` will do, before there is a key: programs, levels, claims."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from crypto.cbor import encode
from crypto.labels import HE_PLAN
from crypto.sm3 import sm3
from he_chain.backends.lattigo import keys_bytes
from he_chain.backends.lattigo_parameters import EPHEMERAL_WEIGHT, BootParameters
from he_chain.backends.lattigo_program import Node, Program
from he_chain.boot.layer import LEVELS, LayerMaps, boot_hop, lay_hop
from he_chain.boot.ranges import BootRanges
from he_chain.errors import PlanError, SecurityError
from he_chain.plaintext import PlainModel
from he_chain.records.claims import CLAIMS, LIMITS, security_line

BACKEND: Final = "lattigo"


@dataclass(frozen=True)
class Hop:
    """One program of a run."""

    kind: str
    """`boot` or `lay`."""
    layer: int
    program: Program
    output: Node


@dataclass(frozen=True)
class BootPlan:
    """All programs of a run, before there is a key."""

    parameters: BootParameters
    ranges: BootRanges
    hops: tuple[Hop, ...]
    width: int
    model_digest: bytes

    @property
    def rotations(self) -> frozenset[int]:
        """Steps that need a key."""
        return frozenset().union(*(hop.program.rotations for hop in self.hops))

    @property
    def num_bootstraps(self) -> int:
        """In all hops."""
        return sum(hop.program.counts["bootstraps"] for hop in self.hops)

    @property
    def needed_bytes(self) -> int:
        """Memory that making or reading the keys takes, about."""
        return keys_bytes(self.parameters, len(self.rotations))

    def digest(self) -> bytes:
        """Return 32 bytes that name the steps, their levels and the parameters."""
        steps = [
            f"{hop.layer} {hop.kind} {name} {operation} {level}"
            for hop in self.hops
            for name, operation, level in hop.program.levels()
        ]
        settings = [str(value) for value in self.parameters.to_json().values()]
        return sm3(HE_PLAN + encode([settings, steps, self.model_digest, self.ranges.digest()]))


def plan(
    model: PlainModel, ranges: BootRanges, parameters: BootParameters, num_layers: int = 1
) -> BootPlan:
    """Lay the first layers of a model out as programs; every level is checked here.

    Raises:
        PlanError, LevelError, RangeError: the parameters do not do; there are no such layers.
    """
    if not 1 <= num_layers <= model.config.num_layers:
        raise PlanError(f"the model has {model.config.num_layers} layers")
    hops: list[Hop] = []
    level = LEVELS
    for index in range(num_layers):
        maps = LayerMaps.of(model.layer(index), model.config, ranges.layers[index])
        for kind, build in (("boot", boot_hop), ("lay", lay_hop)):
            program, output = build(parameters, maps, ranges.residual, level)
            hops.append(Hop(kind, index, program, output))
            level = output.level
    width = model.config.hidden_size
    return BootPlan(parameters, ranges, tuple(hops), width, model.model_digest)


def security(parameters: BootParameters) -> str:
    """Return what is claimed of parameters, in one line; of a toy ring that it is one."""
    try:
        return security_line(parameters.as_chain, BACKEND, "boot")
    except SecurityError as error:
        return f"none: INSECURE, for tests only ({error})"


def claims(parameters: BootParameters) -> tuple[str, ...]:
    """Return what a run with these parameters claims and does not."""
    weight, degree = parameters.secret_weight, parameters.ring_degree
    kind = (
        f"The secret is dense (weight {weight} of {degree}); sparse is only the ephemeral one of "
        f"weight {EPHEMERAL_WEIGHT} inside a bootstrap, whose keys have "
        f"{parameters.ephemeral_bits} bits of modulus: that this is safe is Lattigo's claim."
        if parameters.dense_secret
        else f"The secret is sparse (weight {weight} of {degree}): a library claim."
    )
    return (
        *CLAIMS["boot"],
        kind,
        "Position 0 only: a softmax of one score is 1, and attention is W_o applied to the values.",
        "Roles are two processes and two libraries; the evaluator's has no decryption.",
        *LIMITS,
    )
