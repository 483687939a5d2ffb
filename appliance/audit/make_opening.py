"""Making an opening: the whole answer computed again, and the states that a challenge asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from appliance.audit.claimed import Claimed
from appliance.audit.findings import FailedError
from appliance.audit.opening import OpenedUnit, Opening
from crypto.sm3 import DIGEST_BYTES
from engine.audit.challenge import Extent, Unit, units
from engine.audit.replay import replay
from engine.forward import Engine


class _Columns:
    """Keeps all leaf hashes of a replay, and the states of those positions that are asked for."""

    def __init__(self, wanted: Sequence[Unit], extent: Extent, width: int) -> None:
        columns, positions = extent.num_layers + 1, extent.num_positions
        self.leaves = np.zeros((columns, positions, DIGEST_BYTES), np.uint8)
        self.states: dict[int, NDArray[np.float32]] = {}
        """float32[n, hidden] of a column's first n positions, as far as a unit needs them."""
        for t, layer in wanted:
            for column in _columns_of(layer, extent.num_layers):
                kept = self.states.get(column)
                if kept is None or len(kept) <= t:
                    self.states[column] = np.zeros((t + 1, width), np.float32)

    def __call__(
        self, first: int, residuals: NDArray[np.float32], leaves: NDArray[np.uint8]
    ) -> None:
        """Take the positions of a step."""
        self.leaves[:, first : first + leaves.shape[1]] = leaves
        for column, kept in self.states.items():
            part = kept[first : first + residuals.shape[1]]
            part[:] = residuals[column, : len(part)]

    def open(self, unit: Unit, num_layers: int) -> OpenedUnit:
        """Return what the opening says of a unit."""
        t, layer = unit
        column = min(layer, num_layers)
        state, leaves = self.states[column][t], np.delete(self.leaves[column], t, axis=0)
        if not 1 <= layer <= num_layers:
            return OpenedUnit(unit, state, leaves)
        below = self.states[layer - 1][: t + 1]
        return OpenedUnit(unit, state, leaves, below, self.leaves[layer - 1, t + 1 :])


def _columns_of(layer: int, num_layers: int) -> tuple[int, ...]:
    return (layer - 1, layer) if 1 <= layer <= num_layers else (min(layer, num_layers),)


def distinct(wanted: Sequence[Unit]) -> tuple[Unit, ...]:
    """Return each unit once, in the order of its first place."""
    return tuple(dict.fromkeys(wanted))


def make_opening(
    claimed: Claimed,
    engine: Engine,
    challenge: bytes,
    count: int,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Opening:
    """Answer a challenge with the weights.

    Args:
        claimed: the bundle, with prompt ids, output ids and trace root opened.
        engine: of its model.
        challenge: 32 bytes of the auditor's.
        count: how many units, 1 .. 1024.
        progress: called with (positions done, positions in all).

    Raises:
        OpenError: something is not opened, or there is nothing to audit.
        FailedError: `trace`: these weights do not give the committed trace; or as `Claimed`.
        EngineError: as `replay`.
    """
    extent, wanted_root = claimed.extent, claimed.trace_root
    digest = claimed.statement_digest
    wanted = distinct(units(digest, challenge, count, extent))
    columns = _Columns(wanted, extent, engine.config.hidden_size)
    replayed = replay(engine, claimed.answered, observe=columns, progress=progress)
    if replayed.trace_root != wanted_root:
        raise FailedError("trace")
    opened = tuple(columns.open(unit, extent.num_layers) for unit in wanted)
    return Opening(digest, challenge, count, replayed.layer_roots, opened)
