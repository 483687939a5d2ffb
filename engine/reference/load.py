"""From a VQF file to a model, every byte checked against the file's own digests."""

from __future__ import annotations

import os
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.reference.decoder import ReferenceModel
from engine.reference.weights import Weight, float_profile
from engine.vqf.manifest import Tensor
from engine.vqf.panels import unpack
from engine.vqf.reader import open_vqf

Profile = Literal["wh1", "wh1-float"]


def load_model(path: str | os.PathLike[str], profile: Profile = "wh1") -> ReferenceModel:
    """Read a VQF file into memory.

    Args:
        path: the file.
        profile: `wh1`, or `wh1-float` (N13) for comparison with implementations from outside.

    Raises:
        OSError: the file cannot be opened.
        FormatError: the file breaks a rule of its format.
        UnsupportedError: the file is signed or sealed.
        WeightsError: an extent does not have its digest.
        WeightsUncheckedError: the file could not be read to its end.
    """
    weights: dict[str, Weight] = {}
    with open_vqf(path) as file:
        config = file.manifest.config
        for extent in file.manifest.extents:
            data = file.read_extent(extent.name)
            for tensor in extent.tensors:
                stored = data[tensor.offset_bytes : tensor.offset_bytes + tensor.length_bytes]
                weights[tensor.name] = _weight(tensor, stored)
    if profile == "wh1-float":
        return ReferenceModel(config, float_profile(weights), cache_type=np.float32)
    return ReferenceModel(config, weights)


def _weight(tensor: Tensor, stored: NDArray[np.uint8]) -> Weight:
    if len(tensor.shape) == 1:
        return Weight("F32", {"w": stored.view("<f4").copy()})
    return Weight(tensor.kind, unpack(tensor.kind, stored, *tensor.shape))
