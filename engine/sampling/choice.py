"""What sampling returns, and the checks of what it is given (S14)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.errors import ConfigError, SamplingError
from engine.sampling.parameters import MAX_VOCAB_SIZE, SamplingParameters

Ids = Sequence[int] | NDArray[np.int32]
Mask = NDArray[np.bool_]


class Choice(NamedTuple):
    """One chosen token.

    `logprob` and `top` are of the model's own distribution, before any parameter; `top` holds
    (id, log-probability) from the largest logit on. Without `logprobs` in the parameters they are
    None and empty.
    """

    id: int
    logprob: float | None
    top: list[tuple[int, float]]


def check_vocabulary(parameters: SamplingParameters, vocab_size: int) -> None:
    """Refuse a vocabulary that is too large, and a bias for an id outside it.

    Raises:
        ConfigError: either is the case.
    """
    if not 1 <= vocab_size <= MAX_VOCAB_SIZE:
        raise ConfigError(f"a vocabulary of {vocab_size} tokens cannot be sampled")
    biases = parameters.logit_bias_millionths
    if biases and biases[-1][0] >= vocab_size:
        raise ConfigError(f"logit_bias names the id {biases[-1][0]}, which the model does not have")


def check_step(
    logits: NDArray[np.float32], vocab_size: int, position: int, mask: Mask | None
) -> None:
    """Refuse arrays that do not fit the vocabulary.

    Raises:
        SamplingError: wrong shape or type, or a position outside 0 .. 2^64 - 1.
    """
    if logits.dtype != np.float32 or logits.shape != (vocab_size,):
        raise SamplingError(f"logits must be float32[{vocab_size}]")
    if mask is not None and (mask.dtype != np.bool_ or mask.shape != (vocab_size,)):
        raise SamplingError(f"the mask must be bool[{vocab_size}]")
    if not 0 <= position < 1 << 64:
        raise SamplingError("the position is outside 0 .. 2^64 - 1")


def as_ids(ids: Ids, vocab_size: int) -> NDArray[np.int32]:
    """Return earlier ids as int32[n].

    Raises:
        SamplingError: an id is outside the vocabulary.
    """
    wide = np.asarray(ids, dtype=np.int64)
    if wide.ndim != 1 or bool(np.any((wide < 0) | (wide >= vocab_size))):
        raise SamplingError("earlier ids must be a list of ids of the vocabulary")
    return np.ascontiguousarray(wide, dtype=np.int32)
