"""What the key holder computes in the clear in protocol `assist`, one function for each exchange.

Each takes decrypted slots and returns slots to encrypt. Ranges and canaries are checked first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from he_chain.backends.base import Values
from he_chain.calib import Ranges
from he_chain.canary import canary, check_canary
from he_chain.errors import ProtocolError
from he_chain.exact import epsilon, head_norm, rms_norm, rope, silu, softmax
from he_chain.layout import Shape
from he_chain.packing import Packing
from he_chain.roles.holder_model import HolderModel
from he_chain.wire import NO_LAYER

Slots = Sequence[Values]

EMBED: Final = "embed"
NORM: Final = "norm"
QKV: Final = "qkv"
SCORES: Final = "scores"
MIXED: Final = "mixed"
FFN_NORM: Final = "ffn-norm"
GLU: Final = "glu"
FINAL: Final = "final"
LOGITS: Final = "logits"

LAY: Final = (NORM, QKV, SCORES, MIXED, FFN_NORM, GLU)
"""The exchanges of a layer in their order; EMBED comes before them in layer 0."""
FIN: Final = (FINAL, LOGITS)


def exchanges(layer: int) -> tuple[str, ...]:
    """Return the exchanges of a hop in their order."""
    if layer == NO_LAYER:
        return FIN
    return (EMBED, *LAY) if layer == 0 else LAY


class Place(NamedTuple):
    """Where in a run an exchange stands."""

    run: bytes
    position: int
    layer: int


class Cipherslots(NamedTuple):
    """Slots to encrypt, and at which level."""

    values: Values
    level: int


class AssistSteps:
    """The key holder's arithmetic of one model."""

    def __init__(self, model: HolderModel, packing: Packing, ranges: Ranges) -> None:
        """Take the model's shape, its layout, and the ranges to hold values to."""
        self._model = model
        self._config = model.config
        self._packing = packing
        self._ranges = ranges
        self._eps = epsilon(model.config)
        self._ones = np.ones(model.config.hidden_size)
        self._steps: dict[str, Callable[[Place, Slots], list[Cipherslots]]] = {
            NORM: self._norm,
            QKV: self._qkv,
            SCORES: self._scores,
            MIXED: self._mixed,
            FFN_NORM: self._norm_behind,
            GLU: self._glu,
            FINAL: self._final,
        }

    def num_inputs(self, kind: str, position: int) -> int:
        """Return how many ciphertexts a message of some kind must have."""
        packing = self._packing
        return {
            EMBED: 0,
            QKV: packing.qkv.num_blocks,
            SCORES: packing.num_blocks(position + 1),
            GLU: packing.glu.num_blocks,
            LOGITS: packing.head.num_blocks,
        }.get(kind, 1)

    def embed(self, token: int) -> list[Cipherslots]:
        """Return the residual that a position begins with."""
        values = np.zeros(self._packing.num_slots)
        values[: self._config.hidden_size] = self._model.embedding(token)
        return [Cipherslots(values, 0)]

    def step(self, kind: str, place: Place, slots: Slots) -> list[Cipherslots]:
        """Return what is to be encrypted for an exchange.

        Raises:
            ProtocolError: there is no such exchange.
            RangeError: a value is outside its range, or a canary is gone.
        """
        if kind not in self._steps:
            raise ProtocolError(f"there is no exchange {kind}")
        return self._steps[kind](place, slots)

    def logits(self, place: Place, slots: Slots) -> Values:
        """Return float64[vocab_size]; RangeError as of `step`."""
        values = self._product(LOGITS, place, slots, self._packing.head)
        self._ranges.check(values, "logits", 0)
        return values

    def _residual(self, kind: str, tensor: str, place: Place, slots: Slots, layer: int) -> Values:
        """Return the checked residual: float64[hidden]."""
        found = slots[0][self._packing.residual_canary]
        check_canary(found, canary(place.run, kind, place.position, place.layer), tensor)
        x = slots[0][: self._config.hidden_size]
        self._ranges.check(x, tensor, layer)
        return x

    def _product(self, kind: str, place: Place, slots: Slots, shape: Shape) -> Values:
        """Return the rows of a product from its blocks, after their canaries were checked."""
        wanted = canary(place.run, kind, place.position, place.layer)
        for one in slots:
            check_canary(one[self._packing.product_canary(shape)], wanted, kind)
        return np.concatenate([one[: shape.block_rows] for one in slots])[: shape.rows]

    @staticmethod
    def _spread(values: Values, shape: Shape) -> list[Cipherslots]:
        return [Cipherslots(shape.spread(values), 1)]

    def _norm(self, place: Place, slots: Slots) -> list[Cipherslots]:
        x = self._residual(NORM, "x", place, slots, place.layer)
        return self._spread(rms_norm(x, self._ones, self._eps), self._packing.qkv)

    def _norm_behind(self, place: Place, slots: Slots) -> list[Cipherslots]:
        x = self._residual(FFN_NORM, "xo", place, slots, place.layer)
        return self._spread(rms_norm(x, self._ones, self._eps), self._packing.glu)

    def _final(self, place: Place, slots: Slots) -> list[Cipherslots]:
        x = self._residual(FINAL, "x", place, slots, self._config.num_layers)
        return self._spread(rms_norm(x, self._ones, self._eps), self._packing.head)

    def _qkv(self, place: Place, slots: Slots) -> list[Cipherslots]:
        config, packing = self._config, self._packing
        rows = self._product(QKV, place, slots, packing.qkv)
        queries, keys = packing.attention_width, packing.key_width
        q, k, v = np.split(rows, [queries, queries + keys])
        for name, values in (("q_raw", q), ("k_raw", k), ("v", v)):
            self._ranges.check(values, name, place.layer)
        q_norm, k_norm = self._model.head_norms(place.layer)
        q = head_norm(q, q_norm, config.head_dim, self._eps)
        k = head_norm(k, k_norm, config.head_dim, self._eps)
        positions = np.array([place.position])
        q = rope(q[None], positions, config)[0] / np.sqrt(config.head_dim)
        k = rope(k[None], positions, config)[0]
        mark = cache_mark(place.run, place.position, place.layer)
        return [
            Cipherslots(packing.queries(q), 1),
            Cipherslots(packing.placed(k, place.position, mark), 1),
            Cipherslots(packing.placed(v, place.position, mark), 1),
        ]

    def _scores(self, place: Place, slots: Slots) -> list[Cipherslots]:
        packing = self._packing
        parts = []
        for block, one in enumerate(slots):
            first = block * packing.block_positions
            count = min(packing.block_positions, place.position + 1 - first)
            marks = [cache_mark(place.run, first + i, place.layer) for i in range(count)]
            check_canary(one[packing.cache_canary], sum(marks), SCORES)
            parts.append(packing.scores(one, count))
        scores = np.concatenate(parts, axis=1)
        self._ranges.check(scores, "scores", place.layer)
        weights = softmax(scores)
        pieces = np.split(
            weights,
            range(packing.block_positions, weights.shape[1], packing.block_positions),
            axis=1,
        )
        return [Cipherslots(packing.shares(piece), 1) for piece in pieces]

    def _mixed(self, place: Place, slots: Slots) -> list[Cipherslots]:
        o = slots[0][: self._packing.attention_width]
        self._ranges.check(o, "o", place.layer)
        return self._spread(o, self._packing.output)

    def _glu(self, place: Place, slots: Slots) -> list[Cipherslots]:
        rows = self._product(GLU, place, slots, self._packing.glu)
        gate, up = np.split(rows, 2)
        self._ranges.check(gate, "gate", place.layer)
        self._ranges.check(up, "up", place.layer)
        g = silu(gate) * up
        self._ranges.check(g, "g", place.layer)
        return self._spread(g, self._packing.down)


def cache_mark(run: bytes, position: int, layer: int) -> float:
    """Return the number by which a position's keys and values are known in the cache."""
    return canary(run, "cache", position, layer)
