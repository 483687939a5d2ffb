"""Attention over the cache (NUMERICS N9).

All scores of a tile are kept (no running maximum), because the order of every sum is the written
one.
"""

from __future__ import annotations

from engine.kernels.attention_scores import emit_scores
from engine.kernels.attention_tile import KV_HEADS, Tile
from engine.kernels.attention_values import emit_weighted_sum
from engine.kernels.cache_number import CacheNumber
from engine.kernels.functions import (
    INFINITY_BITS,
    exp,
    fold_integers,
    fold_sum,
    lane_numbers,
    magnitude_bits,
)
from engine.kernels.program import STEP_NUM_TILES, argument, grab
from engine.kernels.rows import flag_row
from engine.kernels.simd import F32, F32X16, I32, I32X16, Code, Val


def _softmax(code: Code, step: Val, tile: Tile) -> None:
    """Turn each query's scores into e (N9 step 3); 1 / sum goes into `inverses`."""
    lanes = lane_numbers(code)
    lowest = code.bits(F32X16, 0xFF800000)
    zero = code.const(F32X16, 0.0)
    with code.loop(0, tile.queries) as query:
        scores = tile.scores + query * tile.score_stride
        num_keys = tile.keys_of(query).trunc(I32).splat(16)
        largest, worst = code.var(lowest), code.var(code.const(I32X16, 0))
        with code.loop(0, tile.num_groups) as group:
            z = code.load(F32X16, scores + group * 64)
            valid = (lanes + (group * 16).trunc(I32).splat(16)) < num_keys
            worst.set(
                code.overloaded(
                    "llvm.umax", worst.get(), magnitude_bits(code, valid.select(z, zero))
                )
            )
            z = valid.select(z, lowest)
            largest.set((z > largest.get()).select(z, largest.get()))
        row = tile.first_row + query // tile.shared
        flag_row(code, step, row, fold_integers(code, worst.get(), "max") >= INFINITY_BITS)
        values, width = largest.get(), 8
        while width:
            low, high = (
                values.shuffle(list(range(width))),
                values.shuffle(list(range(width, 2 * width))),
            )
            values = (high > low).select(high, low)
            width //= 2
        maximum = values.lane(0).splat(16)
        sums = code.var(zero)
        with code.loop(0, tile.num_groups) as group:
            z = code.load(F32X16, scores + group * 64)
            valid = (lanes + (group * 16).trunc(I32).splat(16)) < num_keys
            e = valid.select(exp(code, z - maximum), zero)
            sums.set(sums.get() + e)
            code.store(e, scores + group * 64)
        code.store(
            code.const(F32, 1.0) / fold_sum(code, sums.get()), tile.inverses + query * 4, align=4
        )


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
