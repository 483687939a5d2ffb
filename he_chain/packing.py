"""Which slot holds what in protocol `assist`, for one model and one ring.

W is the width of all query heads. A cached position has W slots in a key and in a value ciphertext,
heads that share a key/value head repeated, so that a product slot by slot is one head by its own.
As many positions as fit stand in one ciphertext, and the slot behind the last of them is kept free:
it tells whether the cache is the right one (canary.py).
"""

from __future__ import annotations

import numpy as np

from engine.config import ModelConfig
from he_chain.backends.base import Values
from he_chain.errors import PlanError
from he_chain.layout import Shape, choose_shape
from he_chain.slot_sums import sum_rotations


class Packing:
    """Shapes of all products of a model, and the slots of its cache.

    Attributes:
        qkv: queries, keys and values, one below the other.
        output: the attention's output.
        glu: gate and up, one below the other.
        down: back from them.
        head: the logits.
        block_positions: cached positions of one ciphertext.
    """

    def __init__(self, config: ModelConfig, num_slots: int) -> None:
        """Lay out a model.

        Raises:
            PlanError: it does not fit the slots.
        """
        self.config = config
        self.num_slots = num_slots
        self.attention_width = config.num_heads * config.head_dim
        self.key_width = config.num_kv_heads * config.head_dim
        hidden = config.hidden_size
        rows = self.attention_width + 2 * self.key_width
        self.qkv = choose_shape(rows, hidden, num_slots)
        self.output = choose_shape(hidden, self.attention_width, num_slots)
        self.glu = choose_shape(2 * config.intermediate_size, hidden, num_slots)
        self.down = choose_shape(hidden, config.intermediate_size, num_slots)
        self.head = choose_shape(config.vocab_size, hidden, num_slots)
        self.block_positions = (num_slots - config.head_dim) // self.attention_width
        if self.block_positions < 1:
            raise PlanError("one position's keys do not fit a ciphertext")
        free = self.output.free_slots & self.down.free_slots
        if not free:
            raise PlanError(f"the model leaves no slot free of {num_slots}")
        self.residual_canary = min(free)
        """Slot of a residual that no product writes into."""

    @property
    def cache_canary(self) -> int:
        """Slot of keys, queries and scores that belongs to no position."""
        return self.block_positions * self.attention_width

    @property
    def rotations(self) -> frozenset[int]:
        """All rotations that a run needs: the set of its Galois keys."""
        shapes = (self.qkv, self.output, self.glu, self.down, self.head)
        products = frozenset[int]().union(*(shape.rotations for shape in shapes))
        heads = sum_rotations(self.config.head_dim, 1)
        return products | heads | sum_rotations(self.block_positions, self.attention_width)

    @staticmethod
    def product_canary(shape: Shape) -> int:
        """Return the last slot that a product leaves free; every shape has one."""
        return max(shape.free_slots)

    def block(self, position: int) -> int:
        """Return the number of the ciphertext that a position is cached in."""
        return position // self.block_positions

    def num_blocks(self, positions: int) -> int:
        """Return how many ciphertexts hold so many positions."""
        return -(-positions // self.block_positions)

    def repeated(self, values: Values) -> Values:
        """Return float64[W]: key/value heads repeated for the query heads that share them."""
        heads = values.reshape(self.config.num_kv_heads, -1)
        shared = self.config.num_heads // self.config.num_kv_heads
        return np.repeat(heads, shared, axis=0).ravel()

    def queries(self, values: Values) -> Values:
        """Return slots with the queries at every position, and 1 where the canary is."""
        slots = np.zeros(self.num_slots)
        slots[: self.cache_canary] = np.tile(values, self.block_positions)
        slots[self.cache_canary] = 1.0
        return slots

    def placed(self, values: Values, position: int, canary: float) -> Values:
        """Return slots with the keys or values of one position at its place."""
        slots = np.zeros(self.num_slots)
        start = position % self.block_positions * self.attention_width
        slots[start : start + self.attention_width] = self.repeated(values)
        slots[self.cache_canary] = canary
        return slots

    def scores(self, slots: Values, positions: int) -> Values:
        """Return float64[heads, positions] of one ciphertext of scores."""
        used = slots[: positions * self.attention_width].reshape(positions, -1)
        return used[:, :: self.config.head_dim].T

    def shares(self, weights: Values) -> Values:
        """Return slots with float64[heads, positions] repeated over the heads' dimensions."""
        slots = np.zeros(self.num_slots)
        spread = np.repeat(weights.T, self.config.head_dim, axis=1)
        slots[: spread.size] = spread.ravel()
        return slots
