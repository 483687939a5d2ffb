"""The key holder's part of a report: every checkpoint decrypted and compared with the plaintext.

What it gives away is errors and whether the largest logits agree, never a token or a value. Errors
are functions of decrypted values all the same: CKKS is not IND-CPA-D, so a report of a secret
prompt is not for publication under a key that stays in use (he_chain/README.md, "Limits").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

import numpy as np

from he_chain.errors import CheckpointError
from he_chain.records.record import Blob, Record
from he_chain.records.run_folder import Run
from he_chain.reports.figures import Figures, Values, compare, same_argmax, same_top

EXACT: Final = "exact"
FLOAT_PROFILE: Final = "wh1-float"

_RESIDUAL: Final = re.compile(r".*\.x")
_LOGITS: Final = re.compile(r".*\.logits([0-9]{1,4})")


class Decrypts(Protocol):
    """What is needed of the key holder."""

    def decrypt(self, data: bytes) -> Values:
        """Return float64[num_slots]; ProtocolError where the bytes are no ciphertext."""
        ...


class Reference(Protocol):
    """A forward pass on plain numbers over all positions of the run."""

    @property
    def residuals(self) -> Values:
        """float64[layers + 1, positions, width]; [l + 1] is behind layer l."""
        ...

    @property
    def logits(self) -> Values:
        """float64[positions, vocab]."""
        ...


References: TypeAlias = Mapping[str, Reference]
"""By name: `exact` always, `wh1-float` where the engine ran."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What was measured of one tensor of one hop."""

    number: int
    """Of the record."""
    tensor: str
    """`x` or `logits`."""
    position: int
    layer: int | None
    against: Mapping[str, Figures]
    """By the name of the reference."""
    argmax_equal: Mapping[str, bool]
    """Of logits; empty for a residual."""
    top5_equal: Mapping[str, bool]
    profile_distance: Figures | None
    """How far `wh1-float` is from `exact`: what it costs without any noise."""

    def passes(self, gate_bits: int) -> bool:
        """Say whether the numbers reach the gate.

        A residual has to against `exact`; logits have to against every reference, and their largest
        has to be the reference's.
        """
        needed = (EXACT,) if self.tensor == "x" else tuple(self.against)
        reached = all(self.against[name].reach(gate_bits) for name in needed)
        return reached and all(self.argmax_equal.values())


@dataclass(frozen=True, slots=True)
class Measurement:
    """All checkpoints of a run."""

    references: tuple[str, ...]
    checkpoints: tuple[Checkpoint, ...]


def measure(
    run: Run,
    holder: Decrypts,
    references: References,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Measurement:
    """Decrypt and compare every checkpoint of a run.

    Args:
        run: the evaluator's records and ciphertexts.
        holder: has the secret key.
        references: forward passes over the holder's tokens.
        progress: called with hops done, hops in all.

    Raises:
        CheckpointError: a ciphertext is not the one that its record names, or the references do not
            have its position or shape.
        ProtocolError: a ciphertext cannot be decrypted.
    """
    if EXACT not in references:
        raise CheckpointError("there is no exact reference")
    found = []
    for record in run.records:
        for tensor, values in _decrypted(run, record, holder):
            found.append(_compared(record, tensor, values, references))
        progress(record.number + 1, len(run.records))
    return Measurement(tuple(references), tuple(found))


def next_token(run: Run, holder: Decrypts) -> int | None:
    """Return the token that the last hop's logits name: the holder's to know.

    None where the last hop has no logits.

    Raises:
        CheckpointError, ProtocolError: as of `measure`.
    """
    for tensor, values in _decrypted(run, run.records[-1], holder) if run.records else ():
        if tensor == "logits":
            return int(values.argmax())
    return None


def expected(records: Sequence[Record]) -> list[tuple[int, str, int, int | None]]:
    """Return (number, tensor, position, layer) of every checkpoint that a measurement has."""
    return [
        (record.number, tensor, record.position, record.layer)
        for record in records
        for tensor, pattern in (("x", _RESIDUAL), ("logits", _LOGITS))
        if any(pattern.fullmatch(blob.name) for blob in record.outputs)
    ]


def _decrypted(run: Run, record: Record, holder: Decrypts) -> Iterator[tuple[str, Values]]:
    """Yield the residual and the logits of a hop, where it has them."""
    for blob in record.outputs:
        if _RESIDUAL.fullmatch(blob.name):
            yield "x", _values(run, blob, holder, run.begin.width)
    parts = sorted(
        (int(match[1]), blob)
        for blob in record.outputs
        if (match := _LOGITS.fullmatch(blob.name)) is not None
    )
    if parts:
        if [number for number, _ in parts] != list(range(len(parts))):
            raise CheckpointError(f"record {record.number} lacks a part of its logits")
        values = [_values(run, blob, holder, 0) for _, blob in parts]
        yield "logits", np.concatenate(values)


def _values(run: Run, blob: Blob, holder: Decrypts, width: int) -> Values:
    """Return the leading values of a ciphertext: as many as the model has, or as the record says.

    A residual is as wide as the model whatever the record says, so that nobody can leave out those
    that are wrong; that logits are complete shows when they are compared.
    """
    slots = holder.decrypt(run.read_blob(blob))
    count = width or blob.values
    if not 1 <= count <= len(slots):
        raise CheckpointError(f"{blob.name}.ct does not hold {count} values")
    return slots[:count]


def _row(record: Record, tensor: str, reference: Reference) -> Values:
    """Return what a tensor should be; CheckpointError where the reference does not have it."""
    table = reference.logits
    if tensor == "x":
        depth = 0 if record.layer is None else record.layer + 1
        if not 1 <= depth < len(reference.residuals):
            raise CheckpointError(f"record {record.number} is of a layer that the model lacks")
        table = reference.residuals[depth]
    if record.position >= len(table):
        raise CheckpointError(f"record {record.number} is of a position behind the last token")
    row: Values = table[record.position]
    return row


def _compared(record: Record, tensor: str, values: Values, references: References) -> Checkpoint:
    """Compare one tensor with every reference."""
    rows = {name: _row(record, tensor, reference) for name, reference in references.items()}
    logits = rows if tensor == "logits" else {}
    return Checkpoint(
        number=record.number,
        tensor=tensor,
        position=record.position,
        layer=record.layer,
        against={name: compare(values, row) for name, row in rows.items()},
        argmax_equal={name: same_argmax(values, row) for name, row in logits.items()},
        top5_equal={name: same_top(values, row) for name, row in logits.items()},
        profile_distance=(
            compare(rows[FLOAT_PROFILE], rows[EXACT]) if FLOAT_PROFILE in rows else None
        ),
    )
