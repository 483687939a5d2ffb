"""Ranges that a bootstrapped layer relies on, from tokens of public text, never from the prompt.

Lattigo's bootstrap takes values in [-1, 1] and a polynomial is right on its interval only, so every
range is calibrated, widened by a margin, and what the holder decrypts at the end is checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from crypto.cbor import encode
from crypto.labels import HE_CALIBRATION
from crypto.sm3 import sm3
from he_chain.errors import RangeError
from he_chain.plaintext import PlainModel

Values = NDArray[np.float64]


@dataclass(frozen=True)
class LayerRanges:
    """Of one layer at position 0."""

    attention_low: float
    attention_high: float
    """Mean square of the residual in front of the layer."""
    ffn_low: float
    ffn_high: float
    """Mean square of the residual in its middle."""
    gate: float
    """Largest |gate|."""


@dataclass(frozen=True)
class BootRanges:
    """Of a model at position 0."""

    residual: float
    """Largest |x| of all residuals: the unit that a bootstrap sees."""
    layers: tuple[LayerRanges, ...]

    def digest(self) -> bytes:
        """Return 32 bytes that name these ranges."""
        rows = [[float(v).hex() for v in asdict(layer).values()] for layer in self.layers]
        return sm3(HE_CALIBRATION + encode([float(self.residual).hex(), rows]))

    def check(self, values: Values) -> None:
        """Refuse a residual outside the calibrated range.

        Raises:
            RangeError: it is, or is no number, so that nothing computed from it can be believed.
                The text tells nothing that was decrypted.
        """
        if not bool(np.all(np.abs(values) <= self.residual)):
            raise RangeError("a residual is outside the calibrated range")


def calibrate(model: PlainModel, ids: Sequence[int], margin: float = 1.5) -> BootRanges:
    """Measure the ranges on tokens, each at position 0, and widen them.

    Args:
        model: whose layers are meant.
        ids: tokens of public text.
        margin: every magnitude is taken so many times larger, a mean square's lower end so many
            times smaller.

    Raises:
        RangeError: no tokens, or a margin below 1.
    """
    if not ids or not margin >= 1:
        raise RangeError("calibration takes tokens, and a margin of at least 1")
    seen: dict[tuple[int, str], list[float]] = {}

    def watch(layer: int, tensor: str, values: Values) -> None:
        if tensor in ("x", "xo", "gate"):
            seen.setdefault((layer, tensor), []).append(float(np.abs(values).max()))
        if tensor in ("x", "xo"):
            seen.setdefault((layer, f"{tensor}2"), []).append(float(np.mean(values**2)))

    for token in dict.fromkeys(ids):
        model.exact_forward([token], watch=watch)
    layers = tuple(
        LayerRanges(
            attention_low=min(seen[index, "x2"]) / margin,
            attention_high=max(seen[index, "x2"]) * margin,
            ffn_low=min(seen[index, "xo2"]) / margin,
            ffn_high=max(seen[index, "xo2"]) * margin,
            gate=max(seen[index, "gate"]) * margin,
        )
        for index in range(model.config.num_layers)
    )
    residuals = [max(found) for (_, tensor), found in seen.items() if tensor in ("x", "xo")]
    return BootRanges(max(residuals) * margin, layers)
