"""Which units of an answer an auditor looks at: drawn by him, bound to the statement.

Source: verifier/SPEC.md section 8.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from crypto.labels import CHALLENGE
from crypto.sm3 import DIGEST_BYTES, sm3

MAX_UNITS: Final = 1024


class Unit(NamedTuple):
    """One piece of the work on an answer.

    position: t. layer: 0 is the embedding row, 1 .. L a layer, L + 1 final norm, head and choice.
    """

    position: int
    layer: int


@dataclass(frozen=True, slots=True)
class Extent:
    """How much work there is: P ids of the prompt, O ids of the answer, L layers; none is 0."""

    prompt_tokens: int
    output_tokens: int
    num_layers: int

    @property
    def num_positions(self) -> int:
        """T, positions of the trace."""
        return self.prompt_tokens + self.output_tokens - 1


def units(
    statement_digest: bytes, unpredictable: bytes, count: int, extent: Extent
) -> tuple[Unit, ...]:
    """Return the units of a challenge, some perhaps several times.

    Args:
        statement_digest: SM3 of the statement as a signed object.
        unpredictable: 32 bytes that the auditor drew when he held the statement.
        count: how many, 1 .. 1024.
        extent: of the answer.

    Raises:
        ValueError: an argument is outside its range.
    """
    if len(statement_digest) != DIGEST_BYTES or len(unpredictable) != DIGEST_BYTES:
        raise ValueError("digest and challenge have 32 bytes")
    if not 1 <= count <= MAX_UNITS:
        raise ValueError(f"a challenge has 1 to {MAX_UNITS} units")
    start = CHALLENGE + statement_digest + unpredictable
    return tuple(_unit(sm3(start + i.to_bytes(8, "little")), extent) for i in range(count))


def _unit(block: bytes, extent: Extent) -> Unit:
    for_position = int.from_bytes(block[8:16], "little")
    if block[0] % 2 == 0:
        position = extent.prompt_tokens - 1 + for_position % extent.output_tokens
        return Unit(position, extent.num_layers + 1)
    for_layer = int.from_bytes(block[16:24], "little")
    return Unit(for_position % extent.num_positions, for_layer % (extent.num_layers + 1))
