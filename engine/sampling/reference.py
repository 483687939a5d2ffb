"""Sampling in plain NumPy: the definition that the compiled kernel equals bit for bit.

NUMERICS 7, steps S3 to S14.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from engine.errors import SamplingError
from engine.reference.arrays import F32, f32_constant, quiet
from engine.reference.finite import require_finite
from engine.reference.fold import fold16
from engine.reference.functions import exp
from engine.sampling.choice import Choice, Ids, Mask, as_ids, check_step, check_vocabulary
from engine.sampling.generator import draw64
from engine.sampling.parameters import ONE, SamplingParameters

_ONE: Final = f32_constant(0x3F800000)
_TWO: Final = f32_constant(0x40000000)
_MILLION: Final = f32_constant(0x49742400)
_SCALE: Final = f32_constant(0x4E800000)  # 2^30
_LEAST_LOGPROB: Final = f32_constant(0xC61C3C00)  # -9999
_HI: Final = f32_constant(0x3F318000)
_LO: Final = f32_constant(0xB95E8083)
_HALF_ROOT: Final = 0x3F3504F3  # sqrt(1/2)
_SERIES: Final = (
    f32_constant(0x3E638E39),  # 2/9
    f32_constant(0x3E924925),  # 2/7
    f32_constant(0x3ECCCCCD),  # 2/5
    f32_constant(0x3F2AAAAB),  # 2/3
)


class ReferenceSampler:
    """Chooses tokens as the definition says: slow and obvious."""

    def __init__(self, parameters: SamplingParameters, vocab_size: int) -> None:
        """Keep the parameters.

        Raises:
            ConfigError: they do not fit the vocabulary.
        """
        check_vocabulary(parameters, vocab_size)
        self.parameters = parameters
        self.vocab_size = vocab_size

    def sample(
        self,
        logits: F32,
        prompt_ids: Ids,
        output_ids: Ids,
        position: int,
        mask: Mask | None = None,
    ) -> Choice:
        """Choose the token for one position.

        Args:
            logits: float32[vocab_size], unchanged afterwards.
            prompt_ids: ids of the prompt.
            output_ids: ids chosen so far.
            position: position in the sequence of the token to choose.
            mask: bool[vocab_size], False for ids that the grammar excludes.

        Raises:
            NonFiniteError: a logit is not finite, before or after penalties and biases.
            SamplingError: the mask excludes every id, or an argument does not fit.
        """
        check_step(logits, self.vocab_size, position, mask)
        require_finite(logits, "logits")
        prompt, output = as_ids(prompt_ids, self.vocab_size), as_ids(output_ids, self.vocab_size)
        with quiet():
            adjusted = adjust(self.parameters, logits, prompt, output)
            require_finite(adjusted, "logits after penalties and biases")
            token_id = choose(self.parameters, adjusted, position, mask)
            if self.parameters.logprobs is None:
                return Choice(token_id, None, [])
            return _with_logprobs(token_id, logits, self.parameters.logprobs)


def parameter(millionths: int) -> np.float32:
    """Return the binary32 value of a parameter in millionths (S1)."""
    return np.float32(millionths) / _MILLION


def adjust(
    parameters: SamplingParameters,
    logits: F32,
    prompt: NDArray[np.int32],
    output: NDArray[np.int32],
) -> F32:
    """Return the logits after penalties (S3) and biases (S4): float32[vocab]."""
    counts = np.bincount(output, minlength=len(logits))
    seen = counts > 0
    seen[prompt] = True
    factor = parameter(parameters.repetition_penalty_millionths)
    frequency = parameter(parameters.frequency_penalty_millionths)
    presence = parameter(parameters.presence_penalty_millionths)
    result = np.where(seen, np.where(logits > 0, logits / factor, logits * factor), logits)
    penalised = (result - counts.astype(np.float32) * frequency) - presence
    result = np.where(counts > 0, penalised, result)
    for token_id, bias in parameters.logit_bias_millionths:
        result[token_id] = result[token_id] + parameter(bias)
    return result


def choose(parameters: SamplingParameters, logits: F32, position: int, mask: Mask | None) -> int:
    """Return the chosen id from adjusted logits (S5 to S12).

    Raises:
        SamplingError: no id is left.
    """
    ids = np.arange(len(logits)) if mask is None else np.flatnonzero(mask)
    if len(ids) == 0:
        raise SamplingError("the grammar excludes every token")
    left = logits[ids]
    largest = left[_descending(left)[0]]
    if parameters.temperature_millionths == 0:  # S6
        return int(ids[_descending(left)[0]])
    inverse = _ONE / parameter(parameters.temperature_millionths)  # S7
    distance = np.abs(largest - left) * inverse
    if 0 < parameters.top_k < len(ids):  # S8
        kept = np.sort(_ascending(distance)[: parameters.top_k], kind="stable")
        ids, distance = ids[kept], distance[kept]
    order = _ascending(distance)
    weight = exp(-distance)  # S9
    probability = weight * (_ONE / fold16(weight))
    shares = (probability * _SCALE).astype(np.int64)
    running = np.cumsum(shares[order])
    kept_shares = int(running[-1])
    if parameters.top_p_millionths < ONE:  # S10
        wanted = max(1, int(parameter(parameters.top_p_millionths) * _SCALE))
        last = int(np.searchsorted(running, wanted, side="left"))
        kept_shares = int(running[min(last, len(running) - 1)])
    if parameters.min_p_millionths > 0:  # S11
        small = np.flatnonzero(weight[order] < parameter(parameters.min_p_millionths))
        if len(small) > 0:
            kept_shares = min(kept_shares, int(running[small[0] - 1]))
    target = (draw64(parameters.seed, position) * kept_shares) >> 64  # S12
    return int(ids[order[np.searchsorted(running, target, side="right")]])


def _ascending(values: F32) -> NDArray[np.intp]:
    return np.argsort(values, kind="stable")


def _descending(values: F32) -> NDArray[np.intp]:
    return np.argsort(-values, kind="stable")


def log(x: np.float32) -> np.float32:
    """Return the logarithm of a finite x >= 1 (S13)."""
    bits = int(np.array([x]).view(np.int32)[0])
    exponent = (bits - _HALF_ROOT) >> 23
    fraction = f32_constant(bits - (exponent << 23))
    k = np.float32(exponent)
    s = (fraction - _ONE) / (fraction + _ONE)
    w = s * s
    p = _SERIES[0]
    for coefficient in _SERIES[1:]:
        p = p * w + coefficient
    y = s * _TWO + (s * w) * p
    return (y + k * _LO) + k * _HI


def _with_logprobs(token_id: int, logits: F32, number: int) -> Choice:
    order = _descending(logits)
    below = logits - logits[order[0]]
    logprobs = below - log(np.float32(fold16(exp(below))))
    logprobs = np.where(logprobs < _LEAST_LOGPROB, _LEAST_LOGPROB, logprobs)
    top = [(int(i), float(logprobs[i])) for i in order[:number]]
    return Choice(token_id, float(logprobs[token_id]), top)
