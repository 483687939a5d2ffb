"""Our matrix products against `ckks_vector.matmul`: same parameters, same matrix, same run."""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from he_chain.backends.base import Ciphertext, Values
from he_chain.backends.seal import SealEvaluator, SealHolder
from he_chain.backends.seal_context import SealPlain
from he_chain.backends.tenseal_vec import VectorBaseline
from he_chain.errors import PrecisionError
from he_chain.layout import Product, Shape, choose_shape
from he_chain.parameters import Parameters

BASELINE: Final = "ckks_vector.matmul"
_WRONG: Final = 1e-3


@dataclass(frozen=True)
class ProductTime:
    """How long one way of multiplying takes."""

    ring_degree: int
    size: int
    """Rows and columns of the matrix."""
    way: str
    level: int
    """Of the input."""
    cpu_s: float
    """Median of seconds of one core."""
    ratio: float
    """The baseline's seconds divided by these."""
    error: float
    """Largest difference from the product in binary64, of all rounds."""


class _Remembered(SealEvaluator):
    """An evaluator that has encoded everything before, in the order in which it is wanted."""

    def remember(self, run: Callable[[], object]) -> None:
        """Run something once and keep all that it encodes."""
        self._plains: list[SealPlain] = []
        self._next: Iterator[SealPlain] | None = None
        run()

    def replay(self) -> None:
        """Begin again: from now on `encode` gives what it gave then."""
        self._next = iter(self._plains)

    def encode(self, values: Values | float, level: int, scale: float) -> SealPlain:
        """Return what was encoded before, or encode and keep it."""
        if self._next is not None:
            return next(self._next)
        self._plains.append(super().encode(values, level, scale))
        return self._plains[-1]


def time_products(
    parameters: Parameters, sizes: tuple[int, ...] = (64, 128, 256, 576), *, rounds: int = 3
) -> Iterator[ProductTime]:
    """Yield the medians of all ways for each size; the rounds go through all ways in turn.

    - `ckks_vector.matmul`: TenSEAL's, at the top level, the only one that it offers;
    - `steps`: baby and giant steps over all diagonals, each encoded when it is used;
    - `steps, encoded before`: the same with the matrix encoded beforehand;
    - `copies`: what the chain uses: the diagonals shared out among copies of the rows.

    Each of ours at the top level, and at level 1, where the chain runs its products.

    Raises:
        SecurityError, BackendError: the parameters cannot be used, or the library is absent.
        PrecisionError: a result is wrong, and no time of it is worth anything.
    """
    baseline = VectorBaseline(parameters)
    holder = SealHolder.create(parameters)
    for size in sizes:
        yield from _time_size(baseline, holder, size, rounds)


def _time_size(
    baseline: VectorBaseline, holder: SealHolder, size: int, rounds: int
) -> Iterator[ProductTime]:
    parameters = holder.parameters
    rng = np.random.default_rng()
    matrix = rng.standard_normal((size, size)) / math.sqrt(size)
    values = rng.standard_normal(size)
    ways = dict(_ways(baseline, holder, matrix, values))
    seconds: dict[tuple[str, int], list[float]] = {key: [] for key in ways}
    errors = dict.fromkeys(ways, 0.0)
    for _ in range(rounds):
        for key, (run, decrypt) in ways.items():
            start = time.process_time()
            result = run()
            seconds[key].append(time.process_time() - start)
            difference = np.abs(decrypt(result)[:size] - matrix @ values)
            errors[key] = max(errors[key], float(np.max(difference)))
    reference = statistics.median(seconds[BASELINE, parameters.num_levels])
    for (way, level), found in seconds.items():
        if errors[way, level] > _WRONG:
            raise PrecisionError(f"{way} of {size} x {size} is wrong by {errors[way, level]:.3g}")
        median = statistics.median(found)
        yield ProductTime(
            parameters.ring_degree, size, way, level, median, reference / median, errors[way, level]
        )


_Way = tuple[Callable[[], object], Callable[[object], Values]]


def _ways(
    baseline: VectorBaseline, holder: SealHolder, matrix: Values, values: Values
) -> Iterator[tuple[tuple[str, int], _Way]]:
    """Yield ((name, level), (what multiplies, what decrypts its result))."""
    parameters = holder.parameters
    size, slots = len(values), parameters.num_slots
    chosen = choose_shape(size, size, slots)
    baby = math.isqrt(size - 1) + 1
    plain = Shape(size, size, baby, -(-size // baby), 1, slots)
    with tempfile.TemporaryDirectory() as folder:
        holder.write_evaluation_keys(Path(folder), chosen.rotations | plain.rotations)
        evaluator = _Remembered.open(Path(folder))
    vector, transposed = baseline.encrypt(values), matrix.T
    yield (
        (BASELINE, parameters.num_levels),
        (lambda: baseline.matmul(vector, transposed), baseline.decrypt),
    )
    ours = SealEvaluator(evaluator.context, evaluator.keys)

    def decrypt(result: object) -> Values:
        if not isinstance(result, list):
            raise TypeError("a product gives a list")
        return holder.decrypt(ours.dump(result[0]))

    for level in sorted({parameters.num_levels, 1}, reverse=True):
        for name, shape in (("steps", plain), ("copies", chosen)):
            x = ours.load(holder.encrypt(shape.spread(values), level))
            product = Product(shape, matrix)
            yield (name, level), (_times(product, ours, x), decrypt)
    x = ours.load(holder.encrypt(plain.spread(values), 1))
    multiply = _times(Product(plain, matrix), evaluator, x)
    evaluator.remember(multiply)

    def replayed() -> object:
        evaluator.replay()
        return multiply()

    yield ("steps, encoded before", 1), (replayed, decrypt)


def _times(product: Product, ev: SealEvaluator, x: Ciphertext) -> Callable[[], object]:
    return lambda: product(ev, x)
