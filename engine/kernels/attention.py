"""Attention over the cache (NUMERICS N9).

All scores of a tile are kept (no running maximum), because the order of every sum is the written
one.
"""

from __future__ import annotations

from engine.kernels.attention_scores import emit_scores
from engine.kernels.attention_tile import KV_HEADS, Tile
from engine.kernels.attention_values import emit_weighted_sum
from engine.kernels.cache_number import KEYS_IN_VECTOR, CacheNumber
from engine.kernels.functions import (
    INFINITY_BITS,
    exp,
    fold_integers,
    fold_max,
    fold_sum,
    lane_numbers,
    magnitude_bits,
)
from engine.kernels.program import STEP_NUM_TILES, argument, grab
from engine.kernels.rows import flag_row
from simd.code import F32, F32X16, I32, I32X16, Code, Val


def _softmax(code: Code, step: Val, tile: Tile) -> None:
    """Turn each query's scores into e (N9 step 3); 1 / sum goes into `inverses`.

    Groups whose sixteen keys all count need no mask; in those behind them, lanes beyond the query's
    own position are left out of the maximum, and their e is +0.0.
    """
    lanes = lane_numbers(code)
    lowest = code.bits(F32X16, 0xFF800000)
    zero = code.const(F32X16, 0.0)
    with code.loop(0, tile.queries) as query:
        scores = tile.scores + query * tile.score_stride
        num_keys = tile.keys_of(query)
        full_groups = num_keys // KEYS_IN_VECTOR
        spans = ((code.i64(0), full_groups, False), (full_groups, tile.num_groups, True))
        largest, worst = code.var(lowest), code.var(code.const(I32X16, 0))

        def is_valid(group: Val, num_keys: Val = num_keys) -> Val:
            first = (group * KEYS_IN_VECTOR).trunc(I32).splat(16)
            return (lanes + first) < num_keys.trunc(I32).splat(16)

        for start, stop, is_masked in spans:
            with code.loop(start, stop) as group:
                z = code.load(F32X16, scores + group * 64)
                checked = is_valid(group).select(z, zero) if is_masked else z
                bits = magnitude_bits(code, checked)
                worst.set(code.overloaded("llvm.umax", worst.get(), bits))
                z = is_valid(group).select(z, lowest) if is_masked else z
                largest.set((z > largest.get()).select(z, largest.get()))
        row = tile.first_row + query // tile.shared
        flag_row(code, step, row, fold_integers(code, worst.get(), "max") >= INFINITY_BITS)
        maximum = fold_max(code, largest.get()).splat(16)
        sums = code.var(zero)
        for start, stop, is_masked in spans:
            with code.loop(start, stop) as group:
                z = code.load(F32X16, scores + group * 64)
                e = exp(code, z - maximum, at_most_zero=True)
                e = is_valid(group).select(e, zero) if is_masked else e
                sums.set(sums.get() + e)
                code.store(e, scores + group * 64)
        inverse = code.const(F32, 1.0) / fold_sum(code, sums.get())
        code.store(inverse, tile.inverses + query * 4, align=4)


def emit_attention(
    code: Code, number: CacheNumber, instruction: Val, step: Val, thread: Val
) -> None:
    """Emit the kernel: (tile, key/value head) pairs shared by the threads."""
    kv_heads = argument(code, instruction, KV_HEADS)
    total = code.word(step, STEP_NUM_TILES) * kv_heads
    with grab(code, instruction, total, 1) as (begin, end):
        with code.loop(begin, end) as item:
            tile = Tile(code, number, instruction, step, thread, item)
            emit_scores(code, tile)
            _softmax(code, step, tile)
            emit_weighted_sum(code, tile)
