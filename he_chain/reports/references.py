"""The forward passes on plain numbers that a run is measured against."""

from __future__ import annotations

from collections.abc import Sequence

from he_chain.plaintext import PlainModel
from he_chain.reports.measure import EXACT, FLOAT_PROFILE, Reference


def make_references(
    model: PlainModel, ids: Sequence[int], *, float_profile: bool, num_threads: int = 1
) -> dict[str, Reference]:
    """Return `exact` and, if it is wanted, `wh1-float`, which takes numba.

    Args:
        model: on plain numbers.
        ids: tokens of positions 0, 1, ... of the run.
        float_profile: whether the engine runs as well.
        num_threads: of the engine.

    Raises:
        PlanError: no ids, or one outside the vocabulary.
        WeightsError, WeightsUncheckedError, NonFiniteError: as of `PlainModel`.
    """
    found: dict[str, Reference] = {EXACT: model.exact_forward(ids)}
    if float_profile:
        found[FLOAT_PROFILE] = model.float_profile_forward(ids, num_threads=num_threads)
    return found
