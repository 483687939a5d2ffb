"""What a run is compared with: the same model on plain numbers, twice.

`exact_forward` is binary64 throughout: the truth that noise is measured against.
`float_profile_forward` is the engine's own forward pass over the dequantised weights, profile
`wh1-float` (NUMERICS N13), whose sums in binary32 are an error of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from he_chain.errors import PlanError
from he_chain.exact import binary16, epsilon, head_norm, rms_norm, rope, silu, softmax
from he_chain.weights import LayerWeights, ModelWeights, Values

Watch: TypeAlias = Callable[[int, str, Values], None]
"""Called with (layer, tensor, its values of all positions); layer num_layers is the head."""


@dataclass(frozen=True)
class Forward:
    """What a forward pass over n positions gives."""

    residuals: Values
    """float64[num_layers + 1, n, hidden]: x(t, l); [0] is the embedding, [-1] before the norm."""
    logits: Values
    """float64[n, vocab]."""


def _nobody(layer: int, tensor: str, values: Values) -> None:
    """Watch nothing."""


class PlainModel(ModelWeights):
    """A VQF file's model on plain numbers."""

    def exact_forward(
        self, ids: Sequence[int], *, half_cache: bool = False, watch: Watch = _nobody
    ) -> Forward:
        """Run all positions in binary64, one layer's weights in memory at a time.

        Args:
            ids: the tokens of positions 0, 1, ...
            half_cache: whether keys and values are rounded to binary16, as in profile `wh1`; in
                `wh1-float` they are not.
            watch: sees every tensor: x, h1, q, k, v (before and after RoPE as q_raw and q), scores,
                o, xo, h2, gate, up, g.

        Raises:
            PlanError: no ids, or one outside the vocabulary.
            WeightsError, WeightsUncheckedError: as of `layer`.
        """
        config = self.config
        rows = self._checked(ids)
        x = self.embedding()[rows].astype(np.float64)
        residuals = [x]
        for index in range(config.num_layers):
            x = self._layer_forward(self.layer(index), index, x, watch, half_cache=half_cache)
            residuals.append(x)
        watch(config.num_layers, "x", x)
        h = rms_norm(x, self.final_norm(), epsilon(config))
        watch(config.num_layers, "h1", h)
        logits = _times(h, self.head())
        watch(config.num_layers, "logits", logits)
        return Forward(np.stack(residuals), logits)

    def float_profile_forward(self, ids: Sequence[int], *, num_threads: int = 1) -> Forward:
        """Run all positions through the engine in profile `wh1-float`; takes numba.

        Raises:
            PlanError: no ids, or one outside the vocabulary.
            WeightsError, WeightsUncheckedError: as of `layer`.
            NonFiniteError: the engine met a number that is none.
        """
        from engine.forward import Engine, Piece  # noqa: PLC0415  (takes numba)
        from engine.memory.full import FullWeights  # noqa: PLC0415  (takes numba)

        rows = self._checked(ids)
        weights = FullWeights(self._file, as_floats=True, num_threads=num_threads)
        engine = Engine(
            weights,
            num_threads=num_threads,
            max_rows=len(rows),
            max_outputs=len(rows),
            max_positions=len(rows),
            single_cache=True,
        )
        try:
            piece = Piece(engine.new_cache(), rows.astype(np.int32), len(rows))
            result = engine.step([piece], trace=True)
            if result.errors[0] is not None:
                raise result.errors[0]
            if result.residuals is None:
                raise PlanError("the engine kept no residuals")
            return Forward(result.residuals.astype(np.float64), result.logits.astype(np.float64))
        finally:
            engine.close()

    def _checked(self, ids: Sequence[int]) -> NDArray[np.int64]:
        rows = np.array(ids, np.int64)
        if not rows.size or rows.min() < 0 or rows.max() >= self.config.vocab_size:
            raise PlanError("no tokens, or one outside the vocabulary")
        return rows

    def _layer_forward(
        self, w: LayerWeights, index: int, x: Values, watch: Watch, *, half_cache: bool
    ) -> Values:
        """Return the residual of all positions behind one layer."""
        config, eps, dim = self.config, epsilon(self.config), self.config.head_dim
        positions = np.arange(len(x))
        watch(index, "x", x)
        h = rms_norm(x, w.attention_norm, eps)
        watch(index, "h1", h)
        q, k, v = (
            _biased(h @ m.T, b) for m, b in ((w.q, w.q_bias), (w.k, w.k_bias), (w.v, w.v_bias))
        )
        for name, values in (("q_raw", q), ("k_raw", k), ("v", v)):
            watch(index, name, values)
        q = rope(head_norm(q, w.q_norm, dim, eps), positions, config) / np.sqrt(dim)
        k = rope(head_norm(k, w.k_norm, dim, eps), positions, config)
        if half_cache:
            k, v = binary16(k), binary16(v)
        watch(index, "q", q)
        watch(index, "k", k)
        o = _attend(
            q, k, v, config.num_heads, config.num_kv_heads, lambda s: watch(index, "scores", s)
        )
        watch(index, "o", o)
        x = x + o @ w.o.T
        watch(index, "xo", x)
        h = rms_norm(x, w.ffn_norm, eps)
        watch(index, "h2", h)
        gate, up = h @ w.gate.T, h @ w.up.T
        watch(index, "gate", gate)
        watch(index, "up", up)
        g = silu(gate) * up
        watch(index, "g", g)
        y: Values = x + g @ w.down.T
        return y


def _biased(x: Values, bias: Values | None) -> Values:
    return x if bias is None else x + bias


def _attend(
    q: Values, k: Values, v: Values, heads: int, kv_heads: int, see: Callable[[Values], None]
) -> Values:
    """Return float64[n, heads * dim]: causal attention of all positions; q is scaled already."""
    n = len(q)
    shared = heads // kv_heads
    queries = q.reshape(n, heads, -1)
    keys = np.repeat(k.reshape(n, kv_heads, -1), shared, axis=1)
    values = np.repeat(v.reshape(n, kv_heads, -1), shared, axis=1)
    out = np.empty_like(queries)
    for t in range(n):
        scores = np.einsum("hd,khd->hk", queries[t], keys[: t + 1])
        see(scores)
        out[t] = np.einsum("hk,khd->hd", softmax(scores), values[: t + 1])
    return out.reshape(n, -1)


def _times(h: Values, matrix: NDArray[np.float32], block: int = 4096) -> Values:
    """Return h times a tall binary32 matrix's transpose in binary64, without a copy of it."""
    parts = [h @ matrix[r : r + block].T.astype(np.float64) for r in range(0, len(matrix), block)]
    return np.concatenate(parts, axis=1)
