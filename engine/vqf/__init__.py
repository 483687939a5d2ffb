"""VQF, the weight container: manifest, weights, tokenizer and chat template in one file.

FORMAT.md beside this file is the specification; comments and errors cite its rules.
"""

from __future__ import annotations

from engine.vqf.manifest import Extent, ExtentPlan, Manifest, Tensor, TensorSpec
from engine.vqf.reader import VqfFile, open_vqf
from engine.vqf.writer import write_vqf

__all__ = [
    "Extent",
    "ExtentPlan",
    "Manifest",
    "Tensor",
    "TensorSpec",
    "VqfFile",
    "open_vqf",
    "write_vqf",
]
