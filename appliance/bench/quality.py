"""How good weights are: perplexity, and distance from a reference, over a fixed text.

The reference is a model in profile `wh1-float` (NUMERICS N13): no rounding of activations or cache,
so that what is left between it and `wh1` is what the profile costs, and what is left between two
files is what a quantiser costs. A window is computed in one step; all its positions but the first
are scored, each by the log-probability of the token that really follows. This is measurement, not
inference: log-probabilities are binary64 and made with NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engine.admission import DEV
from engine.errors import ConfigError
from engine.forward import Piece
from engine.model import Model

WINDOW_TOKENS: Final = 512
PINNED_IDS: Final = Path(__file__).parent / "data" / "pydoc_smollm2.npz"
PINNED_VOCAB_SIZE: Final = 49152

_ROWS: Final = 64

Ids = NDArray[np.int32]
F32 = NDArray[np.float32]
F64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Subject:
    """A weight file in one profile."""

    path: Path
    float_profile: bool

    @property
    def profile(self) -> str:
        """Name of the profile."""
        return "wh1-float" if self.float_profile else "wh1"


@dataclass(frozen=True, slots=True)
class Score:
    """What a subject reached; the last three are against the reference, None for itself.

    perplexity: exp of the mean negative log-probability of the text.
    window_nll: that mean for each window.
    logprob_difference: mean absolute difference of these log-probabilities.
    divergence: mean Kullback-Leibler divergence of the whole distributions, in nats.
    same_choice: share of positions where both would choose the same token.
    """

    subject: Subject
    perplexity: float
    window_nll: tuple[float, ...]
    logprob_difference: float | None = None
    divergence: float | None = None
    same_choice: float | None = None


def pinned_windows(vocab_size: int) -> Ids:
    """Return int32[6, 512]: the opening of CPython's help topics in the ids of SmolLM2.

    Raises:
        ConfigError: the model has another vocabulary, so these ids mean nothing to it.
    """
    if vocab_size != PINNED_VOCAB_SIZE:
        raise ConfigError(
            f"the built-in text has the token ids of a vocabulary of {PINNED_VOCAB_SIZE}, this "
            f"model has {vocab_size}: name a text with --text"
        )
    with np.load(PINNED_IDS, allow_pickle=False) as archive:
        ids: Ids = archive["ids"]
    return windows(ids)


def windows(ids: Sequence[int] | Ids) -> Ids:
    """Cut ids into int32[n, 512]; what does not fill a window is dropped.

    Raises:
        ConfigError: they do not fill one.
    """
    count = len(ids) // WINDOW_TOKENS
    if count == 0:
        raise ConfigError(f"a text needs at least {WINDOW_TOKENS} tokens, this one has {len(ids)}")
    return np.array(ids[: count * WINDOW_TOKENS], np.int32).reshape(count, WINDOW_TOKENS)


def log_probabilities(logits: F32) -> F64:
    """Return float64[n, vocab], the logarithm of the softmax of each row."""
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted


class _Sums:
    """Running sums of one subject."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.window_nll: list[float] = []
        self.count = 0
        self.difference = self.divergence = self.same = 0.0

    def add(self, scores: F64, targets: Ids, reference: F64) -> float:
        """Compare float64[n, vocab] with the reference's; returns the negative log-probability."""
        rows = np.arange(len(targets))
        own, theirs = scores[rows, targets], reference[rows, targets]
        self.difference += float(np.abs(own - theirs).sum())
        self.divergence += float((np.exp(reference) * (reference - scores)).sum())
        self.same += float((scores.argmax(axis=1) == reference.argmax(axis=1)).sum())
        self.count += len(targets)
        return -float(own.sum())

    def score(self, *, is_reference: bool) -> Score:
        perplexity = math.exp(sum(self.window_nll) / len(self.window_nll))
        found = Score(self.subject, perplexity, tuple(self.window_nll))
        if is_reference:
            return found
        return Score(
            self.subject,
            perplexity,
            tuple(self.window_nll),
            self.difference / self.count,
            self.divergence / self.count,
            self.same / self.count,
        )


def evaluate(
    subjects: Sequence[Subject],
    choose_windows: Callable[[Model], Ids],
    *,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Score]:
    """Run the subjects side by side over the same text.

    Args:
        subjects: the first is the reference.
        choose_windows: given the first model, returns int32[n, 512] ids.
        threads: by default the cores that the process may use.
        progress: called with windows done, and in all.

    Raises:
        ConfigError: the subjects have different vocabularies.
        EngineError, OSError: a file cannot be used.
    """
    with ExitStack() as stack:
        models = [
            stack.enter_context(
                Model(
                    subject.path,
                    policy=DEV,
                    num_threads=threads,
                    max_positions=WINDOW_TOKENS,
                    max_rows=WINDOW_TOKENS,
                    max_outputs=WINDOW_TOKENS,
                    float_profile=subject.float_profile,
                )
            )
            for subject in subjects
        ]
        if len({model.config.vocab_size for model in models}) > 1:
            raise ConfigError("the two files have different vocabularies")
        text = choose_windows(models[0])
        sums = [_Sums(subject) for subject in subjects]
        for number, ids in enumerate(text):
            _compare(models, sums, ids)
            if progress is not None:
                progress(number + 1, len(text))
    return [total.score(is_reference=total is sums[0]) for total in sums]


def _compare(models: Sequence[Model], sums: Sequence[_Sums], ids: Ids) -> None:
    """Score one window."""
    logits = [_logits(model, ids) for model in models]
    nll = [0.0] * len(models)
    for rows in _pieces(len(ids) - 1):
        scores = [log_probabilities(one[rows]) for one in logits]
        targets = ids[1:][rows]
        for index, total in enumerate(sums):
            nll[index] += total.add(scores[index], targets, scores[0])
    for total, value in zip(sums, nll, strict=True):
        total.window_nll.append(value / (len(ids) - 1))


def _logits(model: Model, ids: Ids) -> F32:
    """Return float32[n, vocab], valid until the model's next step."""
    cache = model.engine.new_cache(len(ids))
    result = model.engine.step([Piece(cache, ids, len(ids))])
    cache.release()
    if result.errors[0] is not None:
        raise result.errors[0]
    return result.logits


def _pieces(rows: int) -> Iterator[slice]:
    for start in range(0, rows, _ROWS):
        yield slice(start, min(start + _ROWS, rows))
