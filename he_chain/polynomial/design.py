"""What a polynomial layer will do, before any key: its layout, contracts, products and steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from engine.config import ModelConfig
from he_chain.errors import PlanError
from he_chain.exact import epsilon
from he_chain.parameters import Parameters
from he_chain.polynomial.grid import Grid, Slots, make_grid
from he_chain.polynomial.nonlin import (
    NormContract,
    SiluContract,
    SoftmaxContract,
    norm_contract,
    silu_contract,
    softmax_contract,
)
from he_chain.polynomial.ranges import LayerRanges
from he_chain.polynomial.slot_product import SlotProduct


@dataclass(frozen=True)
class LayerDesign:
    """One layer on one grid."""

    config: ModelConfig
    grid: Grid
    ranges: LayerRanges
    norm1: NormContract
    norm2: NormContract
    silu: SiluContract
    target: float
    """Relative error of every fitted polynomial."""
    output_factor: float
    """The layer's output is held as this times x: the factor of the next layer's norm."""

    def softmax(self, positions: int) -> SoftmaxContract:
        """Return the softmax over so many cached positions; its degrees do not depend on them."""
        return softmax_contract(
            self.ranges.centred,
            self.ranges.ratios,
            positions=positions,
            room=self.grid.positions,
            target=self.target,
        )

    @property
    def squarings(self) -> int:
        """How often the softmax squares its shares."""
        return len(self.ranges.ratios) - 1

    @property
    def folds(self) -> int:
        """Positions over which the last product is summed, a power of two."""
        return self.grid.hidden_times(self.config.intermediate_size)

    @cached_property
    def residual(self) -> Slots:
        """The channel of every slot."""
        return self.grid.channels(self.config.hidden_size)

    @cached_property
    def attended(self) -> Slots:
        """The output of attention in every slot."""
        return self.grid.channels(self.config.num_heads * self.config.head_dim)

    @cached_property
    def attention_product(self) -> SlotProduct:
        """Queries, keys and values, for every position."""
        babies, giants = _steps(self.grid, _around(self.grid))
        return SlotProduct(self.residual, self.attended, babies, giants)

    @cached_property
    def output_product(self) -> SlotProduct:
        """The product behind attention, which reads t = 0 and writes there."""
        heads = max(self.config.num_heads, -(-self.config.hidden_size // self.grid.head_dim))
        babies, giants = _steps(self.grid, range(1 - heads, heads))
        first = self.grid.index()[2] == 0
        columns = np.where(first, self.attended, -1)
        rows = np.where(first, self.residual, -1)
        return SlotProduct(columns, rows, babies, giants)

    @cached_property
    def gate_up_product(self) -> SlotProduct:
        """Gates into the lower half of the heads, their partners into the upper half."""
        half, count = self.grid.heads // 2, self.config.intermediate_size
        hidden = self.grid.hidden(count)
        partner = np.roll(hidden, half)
        rows = np.where(partner >= 0, partner + count, hidden)
        babies, giants = _steps(self.grid, _around(self.grid))
        return SlotProduct(self.residual, rows, babies, giants)

    @cached_property
    def down_product(self) -> SlotProduct:
        """The last product, whose slots of one channel are summed over r and t."""
        columns = self.grid.hidden(self.config.intermediate_size)
        low = -(-self.config.hidden_size // self.grid.head_dim) - 1
        babies, giants = _steps(self.grid, range(-low, self.grid.heads // 2))
        rows = np.where(self.grid.index()[2] < self.folds, self.residual, -1)
        groups = np.where(rows >= 0, rows, self.config.hidden_size)
        return SlotProduct(columns, rows, babies, giants, groups)

    @cached_property
    def rotations(self) -> frozenset[int]:
        """Every rotation that a layer takes, as steps to the left."""
        grid = self.grid
        steps = {
            *grid.channel_rotations(),
            *grid.time_rotations(),
            *grid.repeat_rotations(),
            *grid.spread_rotations(),
            grid.heads // 2,
        }
        products = (
            self.attention_product,
            self.output_product,
            self.gate_up_product,
            self.down_product,
        )
        for product in products:
            steps |= product.rotations
        return frozenset(step % grid.num_slots for step in steps) - {0}


def design_layer(
    config: ModelConfig,
    parameters: Parameters,
    ranges: LayerRanges,
    *,
    target: float = 2.0**-13,
    next_square: tuple[float, float] | None = None,
) -> LayerDesign:
    """Return the design of a layer whose values are in these ranges.

    Args:
        config: of the model.
        parameters: of the scheme; only the ring's degree matters here.
        ranges: with their margin.
        target: relative error of every fitted polynomial.
        next_square: mean squares of the next layer's input, for the output's factor; those of
            `ranges.square2` by default.

    Raises:
        PlanError: the model does what polynomials here do not, or does not fit the slots.
        PrecisionError: a range is too wide for a polynomial of degree 127.
    """
    if config.qk_norm:
        raise PlanError("norms of queries and keys are not supported by polynomials")
    grid = make_grid(
        parameters.num_slots,
        head_dim=config.head_dim,
        heads=config.num_heads,
        channels=config.hidden_size,
    )
    eps, count = epsilon(config), config.hidden_size
    low, high = next_square or ranges.square2
    return LayerDesign(
        config=config,
        grid=grid,
        ranges=ranges,
        norm1=norm_contract(*ranges.square1, count, eps, target),
        norm2=norm_contract(*ranges.square2, count, eps, target),
        silu=silu_contract(ranges.gate, target),
        target=target,
        output_factor=math.sqrt(2 / (count * (high - low))),
    )


def _around(grid: Grid) -> range:
    """Return distances of heads to either side, which name every head once modulo their number."""
    return range(-grid.heads // 2, grid.heads // 2)


def _steps(grid: Grid, heads: range) -> tuple[list[int], list[int]]:
    """Return babies and giants that bring every dimension and these distances of heads."""
    every = grid.head_dim * len(heads)
    low = 1
    while low < grid.head_dim and 2 * (low * len(heads)) ** 2 < every:
        low *= 2
    babies = [j * grid.block + h for j in range(low) for h in heads]
    # no rotation first: it costs nothing
    babies.sort(key=abs)
    return babies, [j * grid.block for j in range(0, grid.head_dim, low)]
