"""CKKS without encryption, in NumPy: levels, scales, refusals and noise as with SEAL."""

from he_chain.backends.mock_evaluator import MockEvaluator
from he_chain.backends.mock_holder import MockHolder

__all__ = ["MockEvaluator", "MockHolder"]
