"""A layer's matrices with everything folded into them that costs a level elsewhere."""

from __future__ import annotations

import numpy as np

from he_chain.backends.base import Values
from he_chain.exact import rope
from he_chain.polynomial.design import LayerDesign
from he_chain.weights import LayerWeights


class FoldedWeights:
    """Matrices float64[outputs, inputs] between values as a design holds them.

    Norms leave their gamma to the next matrix; values, gates and their partners are held over their
    bounds, residuals times their factors; key heads are copied for every query head.
    """

    def __init__(self, weights: LayerWeights, design: LayerDesign) -> None:
        """Fold the weights of a layer for a design of it."""
        self._weights = weights
        self._design = design

    def projection(self, name: str, position: int) -> tuple[Values, Values]:
        """Return matrix and bias of query, keys or values, turned by the angles of a position."""
        weights, config = self._weights, self._design.config
        matrix, bias = {
            "query": (weights.q, weights.q_bias),
            "keys": (weights.k, weights.k_bias),
            "values": (weights.v, weights.v_bias),
        }[name]
        both = np.vstack([matrix.T, np.zeros(len(matrix)) if bias is None else bias])
        both[:-1] *= weights.attention_norm[:, None]
        if name != "values":
            both = rope(both, np.full(len(both), position), config)
        if name == "query":
            both = both / np.sqrt(config.head_dim)
        else:
            shared = config.num_heads // config.num_kv_heads
            heads = both.reshape(len(both), config.num_kv_heads, config.head_dim)
            both = np.repeat(heads, shared, axis=1).reshape(len(both), -1)
        if name == "values":
            both = both / self._design.ranges.value
        return np.ascontiguousarray(both[:-1].T), both[-1]

    def output(self) -> Values:
        """Return the matrix behind attention."""
        return self._weights.o * (self._design.ranges.value * self._design.norm2.factor)

    def gate_up(self) -> Values:
        """Return the gates' rows, then their partners'."""
        weights, ranges = self._weights, self._design.ranges
        rows = np.vstack([weights.gate / ranges.gate, weights.up / ranges.up])
        folded: Values = rows * weights.ffn_norm
        return folded

    def down(self) -> Values:
        """Return the last matrix."""
        design = self._design
        factor = design.silu.bound * design.ranges.up * design.output_factor
        return self._weights.down * factor
