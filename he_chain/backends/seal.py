"""CKKS by Microsoft SEAL, through the binding that TenSEAL carries (`tenseal.sealapi`)."""

from he_chain.backends.seal_evaluator import SealEvaluator
from he_chain.backends.seal_holder import SealHolder

__all__ = ["SealEvaluator", "SealHolder"]
