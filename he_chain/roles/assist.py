"""The evaluator of protocol `assist`: what it computes on ciphertexts in one hop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from he_chain.backends.base import Ciphertext, Evaluator, Values
from he_chain.canary import canary
from he_chain.layout import Product, Shape
from he_chain.packing import Packing
from he_chain.roles import assist_steps as steps
from he_chain.roles.exchanges import Exchanges
from he_chain.slot_sums import sum_blocks
from he_chain.weights import LayerWeights, ModelWeights
from he_chain.wire import NO_LAYER


class CacheBlock(NamedTuple):
    """Keys and values of some positions, at level 1."""

    keys: Ciphertext
    values: Ciphertext


class Hop(NamedTuple):
    """What a layer gives."""

    x: Ciphertext
    """The residual, at level 0."""
    block: CacheBlock
    """The cache's ciphertexts that this position was added to."""


class AssistEvaluator:
    """Runs layers on ciphertexts, with a key holder for what is not linear."""

    def __init__(
        self, evaluator: Evaluator, weights: ModelWeights, exchanges: Exchanges, run: bytes
    ) -> None:
        """Lay out a model.

        Args:
            evaluator: computes.
            weights: read one layer at a time.
            exchanges: to the holder.
            run: 16 bytes.

        Raises:
            PlanError: the model does not fit the ring.
        """
        self.packing = Packing(weights.config, evaluator.parameters.num_slots)
        self._ev = evaluator
        self._weights = weights
        self._exchanges = exchanges
        self._run = run

    def lay(
        self, position: int, layer: int, x: Ciphertext | None, cache: Sequence[CacheBlock]
    ) -> Hop:
        """Run one layer of one position.

        Args:
            position: from 0.
            layer: from 0.
            x: the residual; None in layer 0, where the holder gives it.
            cache: of the layer's earlier positions.

        Raises:
            HeChainError: the holder refused, or a ciphertext cannot be computed.
            WeightsError, WeightsUncheckedError: as of `ModelWeights`.
        """
        place = (position, layer)
        ev, packing = self._ev, self.packing
        if x is None:
            (x,) = self._ask(steps.EMBED, place, [])
        w = self._weights.layer(layer)
        (h,) = self._ask(steps.NORM, place, [self._marked(steps.NORM, place, x)])
        matrix, bias = _stacked(w)
        rows = self._product(steps.QKV, place, h, packing.qkv, matrix, w.attention_norm, bias)
        q, k, v = self._ask(steps.QKV, place, rows, 3)
        blocks = [*cache]
        if position % packing.block_positions:
            last = blocks.pop()
            k, v = ev.add(last.keys, k), ev.add(last.values, v)
        blocks.append(CacheBlock(k, v))
        o = self._attend(place, q, blocks)
        x = ev.add(x, self._times(self._ask(steps.MIXED, place, [o])[0], packing.output, w.o))
        (h,) = self._ask(steps.FFN_NORM, place, [self._marked(steps.FFN_NORM, place, x)])
        both = np.concatenate([w.gate, w.up])
        rows = self._product(steps.GLU, place, h, packing.glu, both, w.ffn_norm, None)
        (g,) = self._ask(steps.GLU, place, rows)
        return Hop(ev.add(x, self._times(g, packing.down, w.down)), blocks[-1])

    def fin(self, position: int, x: Ciphertext) -> Iterator[Ciphertext]:
        """Yield the logits of a position, block by block, and tell the holder at the end.

        Raises:
            HeChainError: as of `lay`.
        """
        place = (position, NO_LAYER)
        (h,) = self._ask(steps.FINAL, place, [self._marked(steps.FINAL, place, x)])
        product = Product(self.packing.head, self._weights.head(), self._weights.final_norm())
        sent = []
        for block in product.blocks(self._ev, h):
            sent.append(self._with_canary(steps.LOGITS, place, block, self.packing.head, None))
            yield block
        self._ask(steps.LOGITS, place, sent, 0)

    def _attend(
        self, place: tuple[int, int], q: Ciphertext, blocks: Sequence[CacheBlock]
    ) -> Ciphertext:
        """Return the mixed values of all positions, in the slots of the first."""
        ev, packing = self._ev, self.packing
        scores = [
            sum_blocks(ev, ev.rescale(ev.mul(q, block.keys)), packing.config.head_dim, 1)
            for block in blocks
        ]
        shares = self._ask(steps.SCORES, place, scores, len(blocks))
        mixed = None
        for share, block in zip(shares, blocks, strict=True):
            part = ev.rescale(ev.mul(share, block.values))
            mixed = part if mixed is None else ev.add(mixed, part)
        if mixed is None:
            raise ValueError("there is no position to attend to")
        return sum_blocks(ev, mixed, packing.block_positions, packing.attention_width)

    def _product(
        self,
        kind: str,
        place: tuple[int, int],
        h: Ciphertext,
        shape: Shape,
        matrix: Values,
        factors: Values,
        bias: Values | None,
    ) -> list[Ciphertext]:
        """Return a product's blocks with their canaries, ready to be sent."""
        blocks = Product(shape, matrix, factors)(self._ev, h)
        rows = shape.block_rows
        biases = [
            None if bias is None else bias[i * rows : (i + 1) * rows] for i in range(len(blocks))
        ]
        return [
            self._with_canary(kind, place, block, shape, part)
            for block, part in zip(blocks, biases, strict=True)
        ]

    def _times(self, x: Ciphertext, shape: Shape, matrix: Values) -> Ciphertext:
        """Return a product of one block."""
        (y,) = Product(shape, matrix)(self._ev, x)
        return y

    def _marked(self, kind: str, place: tuple[int, int], x: Ciphertext) -> Ciphertext:
        """Return a residual with its canary, to be sent; what is kept has none."""
        return self._plus(kind, place, x, self.packing.residual_canary, None)

    def _with_canary(
        self, kind: str, place: tuple[int, int], x: Ciphertext, shape: Shape, bias: Values | None
    ) -> Ciphertext:
        return self._plus(kind, place, x, self.packing.product_canary(shape), bias)

    def _plus(
        self, kind: str, place: tuple[int, int], x: Ciphertext, slot: int, bias: Values | None
    ) -> Ciphertext:
        """Return x plus a bias in its first slots and the canary in one that is free."""
        values = np.zeros(self.packing.num_slots)
        if bias is not None:
            values[: len(bias)] = bias
        values[slot] = canary(self._run, kind, *place)
        return self._ev.add_plain(x, self._ev.encode(values, x.level, x.scale))

    def _ask(
        self, kind: str, place: tuple[int, int], sent: Sequence[Ciphertext], answers: int = 1
    ) -> list[Ciphertext]:
        """Let the holder compute."""
        blobs = [self._ev.dump(x) for x in sent]
        return [self._ev.load(b) for b in self._exchanges.ask(kind, *place, blobs, answers)]


def _stacked(w: LayerWeights) -> tuple[Values, Values | None]:
    """Return queries, keys and values below each other, and their biases."""
    matrix = np.concatenate([w.q, w.k, w.v])
    if w.q_bias is None or w.k_bias is None or w.v_bias is None:
        return matrix, None
    return matrix, np.concatenate([w.q_bias, w.k_bias, w.v_bias])
