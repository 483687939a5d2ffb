"""The sampler that generation uses: the kernel behind the interface of the reference."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from engine.errors import NonFiniteError, SamplingError
from engine.sampling import kernel
from engine.sampling.choice import Choice, Ids, Mask, as_ids, check_step, check_vocabulary
from engine.sampling.generator import draw64
from engine.sampling.parameters import ONE, SamplingParameters
from engine.sampling.vectors import BLOCK, BUCKETS

_MILLION: Final = np.float32(ONE)
_SCALE: Final = np.float32(1 << 30)
_FULL_SHARE: Final = 1 << 30
_LEAST_LOGPROB: Final = np.float32(-9999)
_NO_IDS: Final = np.zeros(0, dtype=np.int32)
_NO_FLOATS: Final = np.zeros(0, dtype=np.float32)
_NO_MASK: Final = np.zeros(0, dtype=np.uint8)
_LOW_WORD: Final = 0xFFFFFFFF


class Workspace:
    """Memory for sampling from one vocabulary; samplers that never run at once may share it."""

    def __init__(self, vocab_size: int) -> None:
        """Reserve about 30 bytes for each token of the vocabulary."""
        self.vocab_size = vocab_size
        padded = -(-vocab_size // BLOCK) * BLOCK
        self.work = np.zeros(padded, dtype=np.float32)
        self.distances = np.zeros(padded, dtype=np.int32)
        self.weights = np.zeros(padded, dtype=np.float32)
        self.parts = np.zeros(padded, dtype=np.int32)
        self.buckets = np.zeros(padded, dtype=np.uint16)
        self.found = np.zeros(padded, dtype=np.int32)
        self.kept = np.zeros(padded, dtype=np.int32)
        self.ids = np.zeros(padded, dtype=np.int32)
        self.counts = np.zeros(padded, dtype=np.int32)
        self.histogram = np.zeros(BUCKETS, dtype=np.int32)


class Sampler:
    """Chooses tokens with one set of parameters. Not for use by two threads at once."""

    def __init__(
        self, parameters: SamplingParameters, vocab_size: int, workspace: Workspace | None = None
    ) -> None:
        """Keep the parameters as the kernel takes them.

        Args:
            parameters: how to choose.
            vocab_size: number of logits.
            workspace: memory to use, of the same vocabulary; None reserves some.

        Raises:
            ConfigError: the parameters do not fit the vocabulary.
            SamplingError: the workspace does not.
        """
        check_vocabulary(parameters, vocab_size)
        if workspace is not None and workspace.vocab_size != vocab_size:
            raise SamplingError("the workspace was made for another vocabulary")
        self.parameters = parameters
        self.vocab_size = vocab_size
        self._space = workspace or Workspace(vocab_size)
        self._penalties = _NO_FLOATS
        if parameters.has_penalties:
            self._penalties = _as_f32(
                [
                    parameters.repetition_penalty_millionths,
                    parameters.frequency_penalty_millionths,
                    parameters.presence_penalty_millionths,
                ]
            )
        pairs = parameters.logit_bias_millionths
        self._bias_ids = np.array([token_id for token_id, _ in pairs], dtype=np.int32)
        self._biases = _as_f32([bias for _, bias in pairs])
        self._temperature = _bits(parameters.temperature_millionths)
        self._min_p = _bits(parameters.min_p_millionths)
        top_p = parameters.top_p_millionths
        self._top_p_share = int(_as_f32([top_p])[0] * _SCALE) if top_p < ONE else _FULL_SHARE

    def sample(
        self,
        logits: NDArray[np.float32],
        prompt_ids: Ids,
        output_ids: Ids,
        position: int,
        mask: Mask | None = None,
    ) -> Choice:
        """Choose the token for one position; the same as `ReferenceSampler.sample`, fast.

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
        logits = np.ascontiguousarray(logits)
        space = self._space
        has_penalties = len(self._penalties) > 0
        left, largest = kernel.prepare(
            logits,
            space.work,
            space.ids,
            space.counts,
            as_ids(prompt_ids, self.vocab_size) if has_penalties else _NO_IDS,
            as_ids(output_ids, self.vocab_size) if has_penalties else _NO_IDS,
            self._penalties,
            self._bias_ids,
            self._biases,
            _NO_MASK if mask is None else np.ascontiguousarray(mask).view(np.uint8),
        )
        if left == kernel.NOT_FINITE:
            raise NonFiniteError("a logit is not finite, or not after penalties and biases")
        if left == kernel.NOTHING_LEFT:
            raise SamplingError("the grammar excludes every token")
        index = self._choose(left, largest, position)
        token_id = index if mask is None else int(space.ids[index])
        if self.parameters.logprobs is None:
            return Choice(token_id, None, [])
        return self._with_logprobs(token_id, logits, self.parameters.logprobs)

    def _choose(self, left: int, largest: int, position: int) -> int:
        space = self._space
        if self.parameters.temperature_millionths == 0:
            return kernel.greedy(space.work, left, largest)
        random = draw64(self.parameters.seed, position)
        return kernel.draw(
            space.work,
            space.distances,
            space.weights,
            space.parts,
            space.buckets,
            space.histogram,
            space.found,
            space.kept,
            left,
            largest,
            self._temperature,
            self.parameters.top_k,
            self._top_p_share,
            self._min_p,
            random >> 32,
            random & _LOW_WORD,
        )

    def _with_logprobs(self, token_id: int, logits: NDArray[np.float32], number: int) -> Choice:
        space = self._space
        bits = kernel.log_total(logits, space.work, space.distances, space.buckets, space.weights)
        log_total = np.array([bits], dtype=np.uint32).view(np.float32)[0]
        size = kernel.largest_ids(logits, space.found, max(number, 1))
        ids = [*(int(i) for i in space.found[:size]), token_id]
        with np.errstate(over="ignore"):
            logprobs = (logits[ids] - logits[ids[0]]) - log_total
        logprobs = np.where(logprobs < _LEAST_LOGPROB, _LEAST_LOGPROB, logprobs)
        values = [float(value) for value in logprobs]
        listed = min(number, size)
        return Choice(token_id, values[-1], list(zip(ids[:listed], values[:listed], strict=True)))


def _as_f32(millionths: list[int]) -> NDArray[np.float32]:
    return np.array(millionths, dtype=np.float32) / _MILLION


def _bits(millionths: int) -> int:
    return int(_as_f32([millionths]).view(np.int32)[0])
