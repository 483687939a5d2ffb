"""The ranges of a layer's values, measured on public text: what its polynomials have to cover.

A range that came from a prompt would tell the evaluator about it. So windows of public text are run
in the clear, their extremes are widened, and that is all that a plan knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from engine.config import ModelConfig
from he_chain.errors import PlanError, RangeError
from he_chain.exact import epsilon, rms_norm, rope, silu, softmax
from he_chain.weights import LayerWeights, Values

Range = tuple[float, float]


@dataclass(frozen=True)
class LayerRanges:
    """Ranges of one layer's values; bounds are of magnitudes."""

    square1: Range
    """Mean square of the layer's input."""
    square2: Range
    """Mean square of the residual behind attention."""
    score: float
    """Of q k / sqrt(head_dim)."""
    centred: float
    """Of a score less the mean of its position's."""
    ratios: tuple[Range, ...]
    """Of n times the sum of shares squared, per normalisation; the first of exponentials."""
    value: float
    """Of v."""
    gate: float
    up: float

    def merged(self, other: LayerRanges) -> LayerRanges:
        """Return what covers both."""
        return LayerRanges(
            square1=_both(self.square1, other.square1),
            square2=_both(self.square2, other.square2),
            score=max(self.score, other.score),
            centred=max(self.centred, other.centred),
            ratios=tuple(_both(a, b) for a, b in zip(self.ratios, other.ratios, strict=True)),
            value=max(self.value, other.value),
            gate=max(self.gate, other.gate),
            up=max(self.up, other.up),
        )

    def widened(self, margin: float) -> LayerRanges:
        """Return what covers more: bounds times 1 + margin, positive ranges at both ends.

        Raises:
            RangeError: the margin is not positive, without which a range may be a point.
        """
        if not margin > 0:
            raise RangeError(f"a margin of {margin} on measured ranges")
        more = 1 + margin
        return LayerRanges(
            square1=(self.square1[0] / more, self.square1[1] * more),
            square2=(self.square2[0] / more, self.square2[1] * more),
            score=self.score * more,
            centred=max(self.centred, 0.25) * more,
            # at least 1 by Jensen's inequality, and that needs no margin but for noise
            ratios=tuple((0.97, 1 + (hi - 1) * more + 0.1 * margin) for _, hi in self.ratios),
            value=self.value * more,
            gate=self.gate * more,
            up=self.up * more,
        )


def observe(
    weights: LayerWeights, config: ModelConfig, x: Values, squarings: int, first: int = 0
) -> tuple[LayerRanges, Values]:
    """Run one layer in binary64 over a window and return its ranges and its output.

    Args:
        weights: of the layer.
        config: of the model.
        x: float64[positions, hidden], the layer's input at positions 0, 1, ...
        squarings: k of the softmax.
        first: positions below it are in the cache, and their own ranges do not count: a public
            first token, whose residual is far from all others.

    Raises:
        PlanError: the model norms its queries and keys, which these polynomials do not do.
    """
    if config.qk_norm:
        raise PlanError("norms of queries and keys are not supported by polynomials")
    eps, dim, n = epsilon(config), config.head_dim, len(x)
    positions = np.arange(n)
    h = rms_norm(x, weights.attention_norm, eps)
    q, k, v = (
        h @ m.T + (0.0 if b is None else b)
        for m, b in (
            (weights.q, weights.q_bias),
            (weights.k, weights.k_bias),
            (weights.v, weights.v_bias),
        )
    )
    q, k = rope(q, positions, config) / np.sqrt(dim), rope(k, positions, config)
    shared = config.num_heads // config.num_kv_heads
    keys = np.repeat(k.reshape(n, -1, dim), shared, axis=1)
    values = np.repeat(v.reshape(n, -1, dim), shared, axis=1)
    out = np.empty((n, config.num_heads, dim))
    largest, spread, ratios = 0.0, 0.0, [(1.0, 1.0)] * (squarings + 1)
    for t in range(n):
        scores = np.einsum("hd,khd->hk", q[t].reshape(-1, dim), keys[: t + 1])
        out[t] = np.einsum("hk,khd->hd", softmax(scores), values[: t + 1])
        if t >= first:
            largest = max(largest, float(np.abs(scores).max()))
            centred = scores - scores.mean(axis=1, keepdims=True)
            spread = max(spread, float(np.abs(centred).max()))
            ratios = [_both(a, b) for a, b in zip(ratios, _ratios(centred, squarings), strict=True)]
    x1 = x + out.reshape(n, -1) @ weights.o.T
    h2 = rms_norm(x1, weights.ffn_norm, eps)
    gate, up = h2 @ weights.gate.T, h2 @ weights.up.T
    found = LayerRanges(
        square1=_squares(x[first:]),
        square2=_squares(x1[first:]),
        score=largest,
        centred=spread,
        ratios=tuple(ratios),
        value=float(np.abs(v[first:]).max()),
        gate=float(np.abs(gate[first:]).max()),
        up=float(np.abs(up[first:]).max()),
    )
    return found, x1 + (silu(gate) * up) @ weights.down.T


def merge(found: Sequence[LayerRanges]) -> LayerRanges:
    """Return what covers all of them; there is at least one."""
    return reduce(LayerRanges.merged, found)


def _ratios(centred: Values, squarings: int) -> list[Range]:
    """Return the range of every normalisation's ratio over heads: float64[heads, n] scores."""
    n = centred.shape[1]
    weights, found = np.exp(centred / 2**squarings), []
    for i in range(squarings + 1):
        total = weights.sum(axis=1, keepdims=True)
        ratio = total * n if i else total / n
        found.append((float(ratio.min()), float(ratio.max())))
        weights = (weights / total) ** 2
    return found


def _squares(x: Values) -> Range:
    squares = (x * x).mean(axis=1)
    return float(squares.min()), float(squares.max())


def _both(a: Range, b: Range) -> Range:
    return min(a[0], b[0]), max(a[1], b[1])
