"""A polynomial layer as a block of steps: levels, bounds, operations and errors of each."""

from __future__ import annotations

import math

import numpy as np

from he_chain.planning.plan_step import Block, Operand, Step
from he_chain.polynomial.chebyshev import Series
from he_chain.polynomial.design import LayerDesign
from he_chain.polynomial.nonlin import NormContract
from he_chain.polynomial.poly import count_products
from he_chain.polynomial.slot_product import SlotProduct


def block_of(design: LayerDesign, name: str = "layer") -> Block:
    """Return the steps of a layer; `PolynomialLayer` runs them by these names."""
    steps = [
        *_norm(design, design.norm1, "norm1", "x", "h1"),
        *_projections(design),
        *_softmax(design),
        *_attended(design),
        *_norm(design, design.norm2, "norm2", "x1", "h2"),
        *_feed_forward(design),
    ]
    return Block(name, (("x", design.norm1.largest),), tuple(steps), "x2")


def reach(contract: NormContract) -> float:
    """Return a bound on a normed value: of all channels' squares together, their number."""
    return math.sqrt(contract.channels)


def _norm(design: LayerDesign, norm: NormContract, name: str, x: str, h: str) -> list[Step]:
    """Return the three steps of a norm."""
    rotations = len(design.grid.channel_rotations())
    square, root = f"{name}.u", f"{name}.root"
    bound = _size(norm.series)
    return [
        Step(
            f"{name}.square",
            (Operand(x, 1, 2 * norm.largest),),
            square,
            # the sum before the offset
            norm.largest**2 + 1,
            rotations=rotations,
            ct_ct=1,
        ),
        _series(f"{name}.root", square, root, norm.series, bound),
        Step(
            f"{name}.product",
            (Operand(x, 1, _usual(norm.series)), Operand(root, 1, norm.factor)),
            h,
            reach(norm),
            ct_ct=1,
        ),
    ]


def _projections(design: LayerDesign) -> list[Step]:
    """Return queries, keys and values."""
    product = design.attention_product
    largest = math.sqrt(design.config.head_dim) * design.ranges.score
    return [
        _matrix("query", "h1", "q", product, largest, babies=True),
        _matrix("keys", "h1", "keys", product, largest),
        _matrix("values", "h1", "values", product, 1.0),
    ]


def _softmax(design: LayerDesign) -> list[Step]:
    """Return scores to weights, the last normalisation left to `attention`."""
    grid, n = design.grid, design.grid.positions
    contract, k = design.softmax(n), design.squarings
    wide = n * (design.ranges.centred + design.ranges.score)
    times = len(grid.time_rotations())
    steps = [
        Step(
            "scores",
            (
                Operand("q", 1, n * math.sqrt(design.config.head_dim)),
                Operand("keys", 1, n * math.sqrt(design.ranges.score)),
            ),
            "scores",
            wide,
            rotations=len(grid.dim_rotations()) + times,
            ct_ct=1,
            ct_pt=1,
        ),
        Step(
            "centre",
            (Operand("scores", 1, 1 / (n * design.ranges.centred)),),
            "centred",
            1.0,
            ct_pt=1,
        ),
        _series(
            "exponential", "centred", "weights0", contract.exponential, _size(contract.exponential)
        ),
    ]
    weights = "weights0"
    if k:
        steps.append(Step("mask", (Operand(weights, 1),), "masked", steps[-1].bound, ct_pt=1))
        weights = "masked"
    for i, step in enumerate(contract.normalisations):
        last = i == k
        total, inverse = f"sum{i}", f"inverse{i}"
        lo, hi = design.ranges.ratios[i]
        steps.append(
            Step(
                f"sum{i}",
                (Operand(weights, 0, math.sqrt(n)),),
                total,
                (n + hi) / (hi - lo) * 2,
                rotations=times,
            )
        )
        steps.append(_series(f"inverse{i}", total, inverse, step.series, _size(step.series)))
        if not last:
            shares, following = f"shares{i}", f"weights{i + 1}"
            product = (Operand(weights, 1, _usual(step.series)), Operand(inverse, 1, 1 / n))
            steps.append(Step(shares, product, shares, math.sqrt(n), ct_ct=1))
            square = (Operand(shares, 1, 2.0),)
            steps.append(Step(f"square{i}", square, following, float(n), ct_ct=1))
            weights = following
    return steps


def _attended(design: LayerDesign) -> list[Step]:
    """Return weights times values, and the residual behind attention."""
    k, n = design.squarings, design.grid.positions
    contract = design.softmax(n)
    weights = f"weights{k}"
    weighted = _size(contract.exponential) * 2 if not k else 2.0 * n
    inverse = _size(contract.normalisations[-1].series)
    return [
        Step(
            "weighted",
            (Operand(weights, 1), Operand("values", 1)),
            "weighted",
            weighted,
            rotations=len(design.grid.time_rotations()),
            ct_ct=1,
        ),
        Step(
            "attention",
            (
                Operand("weighted", 1, _usual(contract.normalisations[-1].series)),
                Operand(f"inverse{k}", 1, 0.1),
            ),
            "o",
            min(weighted * inverse, 4.0),
            ct_ct=1,
        ),
        _matrix(
            "output",
            "o",
            "x1",
            design.output_product,
            design.norm2.largest,
            rotations=len(design.grid.spread_rotations()),
            residual="x",
        ),
    ]


def _feed_forward(design: LayerDesign) -> list[Step]:
    """Return gates to the layer's output."""
    grid, folded = design.grid, design.folds > 1
    rotations = len(grid.repeat_rotations()) + len(grid.spread_rotations())
    down = _matrix(
        "down",
        "gated",
        "x2",
        design.down_product,
        design.norm2.largest * 2,
        rotations=rotations + design.folds.bit_length() - 1,
        residual="x1",
        levels=1 + folded,
    )
    return [
        _matrix("gate_up", "h2", "gates", design.gate_up_product, 1.0, babies=True),
        _series("silu", "gates", "silu", design.silu.series, _size(design.silu.series)),
        Step(
            "gated",
            (Operand("silu", 1, 0.5), Operand("gates", 1, 0.5)),
            "gated",
            _size(design.silu.series),
            rotations=1,
            ct_ct=1,
        ),
        down,
    ]


def _matrix(
    name: str,
    x: str,
    y: str,
    product: SlotProduct,
    bound: float,
    *,
    babies: bool = False,
    rotations: int = 0,
    residual: str | None = None,
    levels: int = 1,
) -> Step:
    """Return a matrix product; with the residual that it is added to, if any."""
    alone = babies or residual is not None
    turned = product.num_giants + (len(product.used_babies - {0}) if alone else 0)
    more = () if residual is None else (Operand(residual, 1),)
    return Step(
        name,
        (Operand(x, levels), *more),
        y,
        bound,
        rotations=turned + rotations,
        ct_pt=product.num_diagonals + len(more) + levels - 1,
    )


def _series(name: str, x: str, y: str, series: Series, bound: float) -> Step:
    products, plains = count_products(series)
    operand = Operand(x, series.levels, _slope(series))
    error = series.fit_error * (_usual(series) if series.relative else 1.0)
    return Step(name, (operand,), y, bound, fit_error=error, ct_ct=products, ct_pt=plains)


def _size(series: Series) -> float:
    """Return a bound on a series in [-1, 1]."""
    return float(sum(map(abs, series.coefficients)))


def _slope(series: Series) -> float:
    """Return the median of the derivative's magnitude: the ends of a range are rarely met."""
    unit = np.linspace(-1, 1, 1025)
    slopes = np.diff(series.of_unit(unit)) / np.diff(unit)
    return float(np.median(np.abs(slopes)))


def _usual(series: Series) -> float:
    """Return the median magnitude of a series."""
    return float(np.median(np.abs(series.of_unit(np.linspace(-1, 1, 1025)))))
