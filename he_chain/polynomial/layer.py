"""One decoder layer on ciphertexts with additions and multiplications only.

The residual x of one position is held as factor * x in every slot of its channel. Everything that
is constant is folded: the norms' gamma, RoPE of the position, 1 / sqrt(head_dim), the copies of
shared key heads, the position's place in the cache, and the bounds that bring values into the
ranges of the polynomials. Keys and values stay encrypted in the cache as they come, in binary64:
they are not rounded to binary16 as the engine's are.

The plan says at which level every step ends, and what the key holder refreshes before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from he_chain.backends.base import Ciphertext, Evaluator, Values
from he_chain.errors import PlanError
from he_chain.exact import epsilon, rms_norm
from he_chain.planning.placement import PlannedStep
from he_chain.polynomial.design import LayerDesign
from he_chain.polynomial.folded_weights import FoldedWeights
from he_chain.polynomial.grid import sum_up
from he_chain.polynomial.leveled import Leveled
from he_chain.polynomial.nonlin_steps import Run, norm_steps, softmax_steps
from he_chain.polynomial.slot_product import SlotProduct, rotate_babies
from he_chain.polynomial.steps import block_of
from he_chain.refresh import Refresher
from he_chain.weights import LayerWeights

Watch: TypeAlias = Callable[[str, Ciphertext], None]
"""Called with every value of the plan when it is made."""

_CACHED: Final = ("keys", "values")


def _nobody(name: str, value: Ciphertext) -> None:
    """Watch nothing."""


@dataclass(frozen=True)
class _Position:
    """What depends on the position alone."""

    index: int
    """Slot of the cache."""
    mask: Values
    """1 in the slots of this position."""
    filled: Values
    """1 in the slots of this and earlier positions, in heads that there are."""


class PolynomialLayer:
    """One layer and its cache, for positions 0, 1, ... in turn."""

    def __init__(
        self,
        evaluator: Evaluator,
        design: LayerDesign,
        weights: LayerWeights,
        plan: Sequence[PlannedStep],
        refresher: Refresher,
        watch: Watch = _nobody,
    ) -> None:
        """Take what the layer needs.

        Args:
            evaluator: has the rotations of `design.rotations`.
            design: of the layer.
            weights: of the layer.
            plan: of `block_of(design)`, as `place` returns it.
            refresher: asks the key holder.
            watch: sees every value.
        """
        self._ev = evaluator
        self._design = design
        self._folded = FoldedWeights(weights, design)
        self._plan = tuple(plan)
        self._refresher = refresher
        self._watch = watch
        self._bounds = block_of(design).bounds
        self._operands = {
            step.name: [o.value for o in step.operands] for step in block_of(design).steps
        }
        self._outputs = {step.name: step.output for step in block_of(design).steps}
        self._do = Leveled(evaluator)
        self._cache: dict[str, Ciphertext] = {}
        self._public: dict[str, Values] = {}
        self._num_cached = 0
        self._babies: dict[int, Ciphertext] = {}

    @property
    def num_cached(self) -> int:
        """Positions in the cache."""
        return self._num_cached

    @property
    def cache(self) -> dict[str, Ciphertext]:
        """Encrypted keys and values of all positions that ran; public ones are in the first."""
        return dict(self._cache)

    def restore(self, cache: dict[str, Ciphertext], num_cached: int) -> None:
        """Go on behind so many positions, with what `cache` was then.

        Raises:
            PlanError: it is not keys and values, or of more positions than there is room for.
        """
        if set(cache) != set(_CACHED) or not 0 < num_cached <= self._design.grid.positions:
            raise PlanError(f"a cache of {sorted(cache)} for {num_cached} positions")
        self._cache = dict(cache)
        self._num_cached = num_cached

    def add_public(self, x: Values) -> None:
        """Take float64[hidden] of a public token into the cache, in the clear.

        Raises:
            PlanError: an encrypted position came before it, or the cache is full.
        """
        if self._cache:
            raise PlanError("public tokens come before encrypted ones")
        position = self._next()
        h = rms_norm(x, np.ones_like(x), epsilon(self._design.config))
        for name in _CACHED:
            matrix, bias = self._folded.projection(name, position.index)
            slots = self._in_heads(matrix @ h + bias) * position.mask
            self._public[name] = self._public.get(name, np.zeros_like(slots)) + slots
        self._num_cached += 1

    def run(self, x: Ciphertext) -> Ciphertext:
        """Return the layer's output at the next position, held as `output_factor` times it.

        Args:
            x: `norm1.factor` times the residual, as `Grid.spread` puts it, at the plan's level.

        Raises:
            PlanError: the cache is full.
            LevelError: x is below the plan's level.
            RangeError, ProtocolError: as of the refresher.
        """
        position = self._next()
        steps = self._steps(position)
        values = {"x": x}
        for planned in self._plan:
            for wanted in planned.refreshes:
                values[wanted.value] = self._refresher.refresh(
                    self._ev.to_level(values[wanted.value], wanted.at_level),
                    name=wanted.value,
                    bound=self._bounds[wanted.value],
                    level=wanted.to_level,
                )
            operands = [values[name] for name in self._operands[planned.name]]
            result = steps[planned.name](operands, planned.level)
            values[self._outputs[planned.name]] = result
            self._watch(self._outputs[planned.name], result)
        self._cache = {name: values[name] for name in _CACHED}
        self._babies = {}
        self._num_cached += 1
        return values["x2"]

    def _next(self) -> _Position:
        grid, n = self._design.grid, self._num_cached
        if n >= grid.positions:
            raise PlanError(f"the cache has room for {grid.positions} positions")
        times = grid.index()[2]
        heads = (self._design.attended >= 0).astype(np.float64)
        return _Position(n, (times == n).astype(np.float64), heads * (times <= n))

    def _steps(self, position: _Position) -> dict[str, Run]:
        """Return what every step of the plan does."""
        design = self._design
        steps: dict[str, Run] = {
            "query": lambda x, level: self._project("query", x[0], level, position),
            "keys": lambda x, level: self._project("keys", x[0], level, position),
            "values": lambda x, level: self._project("values", x[0], level, position),
            "scores": lambda x, level: self._scores(x[0], x[1], level, position),
            "centre": lambda x, level: self._centre(x[0], level, position),
            "weighted": lambda x, level: self._do.product(
                x[0], x[1], level, design.grid.time_rotations()
            ),
            "attention": lambda x, level: self._do.product(x[0], x[1], level),
            "output": self._output,
            "gate_up": self._gate_up,
            "silu": lambda x, level: self._do.series(design.silu.series, x[0], level),
            "gated": lambda x, level: self._do.product(
                x[0],
                self._ev.rotate(self._ev.to_level(x[1], level + 1), design.grid.heads // 2),
                level,
            ),
            "down": self._down,
        }
        channels, times = design.grid.channel_rotations(), design.grid.time_rotations()
        for name, norm in (("norm1", design.norm1), ("norm2", design.norm2)):
            steps |= norm_steps(self._do, name, norm, channels)
        contract = design.softmax(position.index + 1)
        return steps | softmax_steps(self._do, contract, position.filled, times)

    def _project(self, name: str, h: Ciphertext, level: int, position: _Position) -> Ciphertext:
        """Return queries, or the cache with this position's keys or values."""
        ev, product = self._ev, self._design.attention_product
        matrix, bias = self._folded.projection(name, position.index)
        mask = None if name == "query" else position.mask
        rotated = self._rotated(h, product)
        found = ev.rescale(product.apply(ev, rotated, matrix, level, self._do.scale, mask))
        slots = self._in_heads(bias) * (1.0 if mask is None else mask)
        if name in _CACHED and name not in self._cache:
            slots = slots + self._public.get(name, np.zeros_like(slots))
        if slots.any():
            found = ev.add_plain(found, ev.encode(slots, found.level, found.scale))
        before = self._cache.get(name)
        return found if before is None else ev.add(found, before)

    def _scores(
        self, q: Ciphertext, keys: Ciphertext, level: int, position: _Position
    ) -> Ciphertext:
        """Return n s - (sum of s over positions) in every slot; empty positions have no score."""
        ev, grid, n = self._ev, self._design.grid, position.index + 1
        scores = sum_up(ev, self._do.wide_product(q, keys, level), grid.dim_rotations())
        total = sum_up(ev, scores, grid.time_rotations())
        # a whole number at scale 1 costs no level
        many = scores if n == 1 else ev.mul_plain(scores, ev.encode(float(n), level + 1, 1.0))
        return ev.rescale(ev.sub(many, total))

    def _centre(self, scores: Ciphertext, level: int, position: _Position) -> Ciphertext:
        """Return scores less their mean, over the bound; 0 at empty positions."""
        factor = 1 / ((position.index + 1) * self._design.ranges.centred)
        return self._do.times(scores, position.filled * factor, level)

    def _output(self, x: list[Ciphertext], level: int) -> Ciphertext:
        """Return the residual behind attention."""
        design, product = self._design, self._design.output_product
        rotated = self._rotated(x[0], product)
        wide = product.apply(self._ev, rotated, self._folded.output(), level, self._do.scale)
        wide = sum_up(self._ev, wide, design.grid.spread_rotations())
        return self._ev.add(
            self._ev.rescale(wide),
            self._do.times(x[1], design.norm2.factor / design.norm1.factor, level),
        )

    def _gate_up(self, x: list[Ciphertext], level: int) -> Ciphertext:
        """Return gates and their partners, over their bounds."""
        product = self._design.gate_up_product
        rotated = self._rotated(x[0], product)
        wide = product.apply(self._ev, rotated, self._folded.gate_up(), level, self._do.scale)
        return self._ev.rescale(wide)

    def _down(self, x: list[Ciphertext], level: int) -> Ciphertext:
        """Return the layer's output."""
        ev, design, grid = self._ev, self._design, self._design.grid
        product, folded = design.down_product, design.folds > 1
        rotated = self._rotated(x[0], product)
        wide = product.apply(ev, rotated, self._folded.down(), level + folded, self._do.scale)
        wide = sum_up(ev, wide, grid.repeat_rotations())
        if folded:
            times = grid.time_rotations()[: design.folds.bit_length() - 1]
            first = (grid.index()[2] == 0).astype(np.float64)
            summed = ev.rescale(sum_up(ev, wide, times))
            wide = self._do.wide_times(summed, first, level)
        found = ev.rescale(sum_up(ev, wide, grid.spread_rotations()))
        return ev.add(
            found, self._do.times(x[1], design.output_factor / design.norm2.factor, level)
        )

    def _rotated(self, x: Ciphertext, product: SlotProduct) -> dict[int, Ciphertext]:
        """Return an operand's babies; queries, keys and values share theirs."""
        if self._babies.get(0) is not x:
            self._babies = rotate_babies(self._ev, x, product.used_babies)
        return self._babies

    def _in_heads(self, values: Values) -> Values:
        """Return float64[num_slots] of the output of attention's float64[heads * head_dim]."""
        where = self._design.attended
        found: Values = np.where(where >= 0, values[where], 0.0)
        return found
