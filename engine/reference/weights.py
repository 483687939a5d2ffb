"""The tensors of a model, by name, as the definition reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.reference.arrays import F32
from engine.vqf.panels import Groups, integer_groups, values

FLOAT_KINDS = frozenset({"F32", "F16", "BF16"})


class Weight(NamedTuple):
    """One tensor: its kind and its fields, [N, ...] arrays as `engine.vqf.panels` names them.

    A one-dimensional tensor is kind F32 with the single field w float32[n].
    """

    kind: str
    fields: Mapping[str, NDArray[Any]]

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the tensor: (n,) or (N, K)."""
        shape: tuple[int, ...] = self.fields["w" if self.kind in FLOAT_KINDS else "q"].shape
        return shape

    def vector(self) -> F32:
        """Return a one-dimensional tensor as float32[n]."""
        w: F32 = self.fields["w"]
        return w

    def matrix(self) -> Groups | F32:
        """Return what `linear` reads (N2): integer groups, or float32[N, K] of a float kind."""
        if self.kind in FLOAT_KINDS:
            return values(self.kind, self.fields)
        return integer_groups(self.kind, self.fields)

    def rows(self, ids: NDArray[np.int64]) -> F32:
        """Return the values of these rows (N2): float32[len(ids), K]."""
        return values(self.kind, {name: field[ids] for name, field in self.fields.items()})


def float_profile(weights: Mapping[str, Weight]) -> dict[str, Weight]:
    """N13, profile `wh1-float`: every matrix replaced by its values as kind F32."""
    return {
        name: Weight("F32", {"w": values(weight.kind, weight.fields)})
        if len(weight.shape) == 2
        else weight
        for name, weight in weights.items()
    }
