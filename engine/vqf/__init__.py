"""VQF, the weight container: manifest, weights, tokenizer and chat template in one file.

FORMAT.md beside this file is the specification; comments and errors cite its rules.
"""

from __future__ import annotations

from engine.vqf.file import VqfFile
from engine.vqf.manifest import Extent, ExtentPlan, Manifest, Tensor, TensorSpec
from engine.vqf.reader import Outline, open_vqf, outline
from engine.vqf.writer import write_vqf

__all__ = [
    "Extent",
    "ExtentPlan",
    "Manifest",
    "Outline",
    "Tensor",
    "TensorSpec",
    "VqfFile",
    "open_vqf",
    "outline",
    "write_vqf",
]
