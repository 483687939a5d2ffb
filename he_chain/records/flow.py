"""Whether the records of a run are hops in their order, at levels that can be.

Nothing here needs a key: it is what anybody can check of a run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from he_chain.errors import CheckpointError, LevelError
from he_chain.records.record import Begin, Blob, Record


@dataclass(frozen=True, slots=True)
class Flow:
    """How far a run came. "Finished" says that all hops are there; not that they are right."""

    hops: int
    positions: int
    """Tokens whose layers have all run."""
    logits: int
    """Tokens whose logits were computed."""
    finished: bool
    """Whether the last token that was begun went through all layers."""


def check_flow(begin: Begin, records: list[Record]) -> Flow:
    """Follow the hops from the first token on.

    For each token, layers run from the first to the last, each once; `refresh` and `boot` belong to
    the layer that is to come or that has just run, and `fin` follows the last layer.

    Raises:
        CheckpointError: a hop does not belong where it is.
    """
    first, last = begin.first_layer, begin.first_layer + begin.num_layers
    position, layer, finals = 0, first, 0
    for record in records:
        if layer == last and record.position == position + 1:
            position, layer = position + 1, first
        if record.position != position:
            raise _misplaced(record, f"token {position} is not finished")
        match record.kind:
            case "lay":
                if record.layer != layer:
                    raise _misplaced(record, f"layer {layer} is the next")
                layer += 1
            case "fin":
                if layer != last:
                    raise _misplaced(record, f"layer {layer} is the next")
                finals += 1
            case _:
                if record.layer not in (layer, layer - 1):
                    raise _misplaced(record, f"layer {layer} is the next")
    _check_inputs(begin, records)
    finished = bool(records) and layer == last
    return Flow(len(records), position + finished, finals, finished)


def check_levels(begin: Begin, records: list[Record]) -> None:
    """Check the arithmetic of levels and scales of every ciphertext that a record names.

    Raises:
        LevelError: a level that the parameters do not have, a scale that a level cannot hold, or a
            level that rose although nobody encrypted anew.
    """
    chain = begin.parameters
    for record in records:
        traced = [level for level, _ in record.levels]
        for level in (*(blob.level for blob in _blobs(record)), *traced):
            if level > chain.num_levels:
                raise LevelError(f"record {record.number}: there is no level {level}")
        for blob in _blobs(record):
            room = chain.first_bits + blob.level * chain.scale_bits
            if math.log2(float.fromhex(blob.scale)) >= room:
                raise LevelError(f"record {record.number}: {blob.name} does not fit its level")
        if record.kind == "lay" and not record.exchanges and record.inputs:
            highest = max(blob.level for blob in record.inputs)
            if any(blob.level > highest for blob in record.outputs):
                raise LevelError(f"record {record.number}: a level rose by itself")


def _check_inputs(begin: Begin, records: list[Record]) -> None:
    """Check that what goes into a hop came out of hops before it, the last one among them.

    The first hop of a token begins with what the key holder encrypted, which no hop made.
    """
    known: dict[str, Blob] = {}
    last: set[str] = set()
    for record in records:
        begins = record.layer == begin.first_layer
        for blob in record.inputs:
            made = known.get(blob.name)
            if made is not None and made != blob:
                raise _misplaced(record, f"{blob.name} is not what an earlier hop made")
            if made is None and not begins:
                raise _misplaced(record, f"no hop made {blob.name}")
        if not begins and last.isdisjoint(blob.name for blob in record.inputs):
            raise _misplaced(record, "nothing of the hop before goes into it")
        for blob in record.outputs:
            if blob.name in known:
                raise _misplaced(record, f"{blob.name} was made before")
            known[blob.name] = blob
        last = {blob.name for blob in record.outputs}


def _blobs(record: Record) -> tuple[Blob, ...]:
    return (*record.inputs, *record.outputs)


def _misplaced(record: Record, why: str) -> CheckpointError:
    return CheckpointError(f"record {record.number} ({record.kind}) does not belong there: {why}")
