"""One decoder layer at position 0 as a program with bootstraps: nobody is asked in between.

At position 0 a softmax has one score, so attention is exactly W_o applied to the values: that is
the one thing here that does not carry over to later positions. Everything else is the real layer:
both norms as polynomials of the mean square, SiLU as a polynomial, the gated product, residuals.

Vectors repeat with a period that is a power of 4; a residual x is carried as x / `residual`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from engine.config import ModelConfig
from he_chain.backends.lattigo_parameters import BootParameters
from he_chain.backends.lattigo_program import Node, Program
from he_chain.boot.ranges import LayerRanges
from he_chain.errors import PlanError
from he_chain.exact import epsilon, silu
from he_chain.weights import LayerWeights

ROOT_DEGREE = 15
SILU_DEGREE = 31
LEVELS = 9
"""What the longest stretch between two bootstraps takes."""

Values = NDArray[np.float64]


@dataclass(frozen=True)
class LayerMaps:
    """The linear maps of a layer on normalised vectors, and its polynomials on [-1, 1]."""

    attention: Values
    """float64[hidden, hidden]: from x / rms to W_o of its values."""
    attention_bias: Values
    gate: Values
    """float64[intermediate, hidden], in units of the gate's range."""
    up: Values
    down: Values
    attention_root: Values
    """Chebyshev coefficients of 1 / rms over the mean square's interval."""
    ffn_root: Values
    silu: Values
    ranges: LayerRanges

    @classmethod
    def of(cls, weights: LayerWeights, config: ModelConfig, ranges: LayerRanges) -> LayerMaps:
        """Fold the norms' factors into the maps and fit the polynomials."""
        shared = config.num_heads // config.num_kv_heads
        spread = weights.o.reshape(len(weights.o), config.num_kv_heads, shared, config.head_dim)
        folded = spread.sum(axis=2).reshape(len(weights.o), -1)  # query heads share a value
        bias = np.zeros(len(folded)) if weights.v_bias is None else folded @ weights.v_bias
        eps = epsilon(config)
        return cls(
            attention=folded @ weights.v * weights.attention_norm,
            attention_bias=bias,
            gate=weights.gate * weights.ffn_norm / ranges.gate,
            up=weights.up * weights.ffn_norm,
            down=weights.down,
            attention_root=_root(ranges.attention_low, ranges.attention_high, eps),
            ffn_root=_root(ranges.ffn_low, ranges.ffn_high, eps),
            silu=_fit(lambda t: silu(t * ranges.gate), SILU_DEGREE),
            ranges=ranges,
        )

    def approximate(self, x: Values) -> Values:
        """Return what the layer gives with these polynomials on exact numbers: float64[hidden]."""
        middle = x + self.attention @ self._normed(x, "attention") + self.attention_bias
        h = self._normed(middle, "ffn")
        gated = chebyshev.chebval(self.gate @ h, self.silu) * (self.up @ h)
        y: Values = middle + self.down @ gated
        return y

    def _normed(self, x: Values, which: str) -> Values:
        low, high, root = self.interval(which)
        scaled: Values = x * chebyshev.chebval(
            (2 * np.mean(x * x) - low - high) / (high - low), root
        )
        return scaled

    def interval(self, which: str) -> tuple[float, float, Values]:
        """Return a mean square's ends and the polynomial on them, of `attention` or `ffn`."""
        r = self.ranges
        if which == "attention":
            return r.attention_low, r.attention_high, self.attention_root
        return r.ffn_low, r.ffn_high, self.ffn_root


def period_of(width: int) -> int:
    """Return the power of 4 that vectors of a width repeat with."""
    return int(4 ** math.ceil(math.log(width, 4) - 1e-9))


def log_slots_of(config: ModelConfig) -> int:
    """Return log2 of the longest period of a model's layers."""
    return period_of(max(config.hidden_size, config.intermediate_size)).bit_length() - 1


def boot_hop(
    parameters: BootParameters, maps: LayerMaps, unit: float, level: int
) -> tuple[Program, Node]:
    """Return a program from a layer's residual to the one in its middle, bootstrapped.

    Args:
        parameters: with at least 9 levels.
        maps: of the layer.
        unit: what residuals are divided by; every residual is below it.
        level: of the residual, 9 or at least 1: below 9 it is bootstrapped first.

    Raises:
        PlanError: a bootstrap does not refresh vectors as long as these, or gives too few levels.
        LevelError: it is at level 0.
    """
    _check(parameters, maps)
    program = Program(parameters)
    x = program.input(level)
    if level < LEVELS:
        x = program.bootstrap("boot-in", x, 1.0)
    h = _norm(program, x, maps, "attention", unit, "norm1")
    matrix = _diagonals(maps.attention / unit)
    bias = _padded(maps.attention_bias / unit, matrix.shape[1])
    o = program.linear("attention", h, matrix, bias)
    middle = program.add("add1", x, o)
    return program, program.bootstrap("boot-middle", middle, 1.0)


def lay_hop(
    parameters: BootParameters, maps: LayerMaps, unit: float, level: int
) -> tuple[Program, Node]:
    """Return a program from the residual in a layer's middle to the next layer's; as `boot_hop`."""
    _check(parameters, maps)
    program = Program(parameters)
    middle = program.input(level)
    h = _norm(program, middle, maps, "ffn", unit, "norm2")
    h = program.bootstrap("boot-ffn", h, 1.0)
    largest = math.sqrt(len(maps.down))
    gate = program.linear("gate", h, _diagonals(maps.gate * largest))
    up = program.linear("up", h, _diagonals(maps.up * largest))
    activated = program.chebyshev("silu", gate, maps.silu)
    gated = program.mul("gated", activated, up)
    down = program.linear("down", gated, _diagonals(maps.down / unit))
    return program, program.add("add2", middle, down)


def _check(parameters: BootParameters, maps: LayerMaps) -> None:
    if parameters.num_levels < LEVELS:
        raise PlanError(f"a layer takes {LEVELS} levels behind a bootstrap")
    longest = period_of(max(maps.down.shape))
    if 1 << parameters.log_slots < longest:
        raise PlanError(f"bootstraps must refresh {longest} values")


def _norm(program: Program, x: Node, maps: LayerMaps, which: str, unit: float, name: str) -> Node:
    """Add x over its root mean square, where x is carried over `unit`; for `ffn` over sqrt(width).

    |x / rms| is at most sqrt(width), so that the second is in [-1, 1] whatever the input was.
    """
    low, high, root = maps.interval(which)
    width = len(maps.down)
    mean = np.full((1, width), 2 / (width * (high - low)))
    rows = np.repeat(mean * unit**2, period_of(width), axis=0)
    bias = np.full(period_of(width), -(low + high) / (high - low))
    squares = program.square(f"{name}.square", x)
    t = program.linear(f"{name}.mean", squares, _diagonals(rows), bias)
    divisor = math.sqrt(width) if which == "ffn" else 1.0
    r = program.chebyshev(f"{name}.root", t, root * (unit / divisor))
    return program.mul(f"{name}.scale", x, r)


def _diagonals(matrix: Values) -> Values:
    """Return float64[d, period] with d the period of the columns: D[k, j] = M[j, (j + k) mod d]."""
    rows, columns = matrix.shape
    high, count = period_of(rows), period_of(columns)
    padded = np.zeros((high, count))
    padded[:rows, :columns] = matrix
    period = max(high, count)
    j = np.arange(period)
    return np.stack([padded[j % high, (j + k) % count] for k in range(count)])


def _padded(vector: Values, period: int) -> Values:
    return np.concatenate([vector, np.zeros(period - len(vector))])


def _root(low: float, high: float, eps: float) -> Values:
    """Fit 1 / sqrt(mean square + eps) over an interval of the mean square."""
    return _fit(lambda t: 1 / np.sqrt((t * (high - low) + high + low) / 2 + eps), ROOT_DEGREE)


def _fit(function: Callable[[Values], Values], degree: int) -> Values:
    """Return the coefficients of the interpolant in Chebyshev's points."""
    points = chebyshev.chebpts1(degree + 1)
    return np.asarray(chebyshev.chebfit(points, function(points), degree), np.float64)
