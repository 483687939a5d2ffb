"""The weighted sum of values (NUMERICS N9 step 4): a lane is a dimension, keys ascend.

A key beyond a row's own position, but inside its tile, has e = +0.0: adding +0.0 times a finite
value to a sum that started at +0.0 changes no bit of it.
"""

from __future__ import annotations

from engine.kernels.attention_tile import FEW_QUERIES, Tile, each_subtile
from engine.kernels.cache_number import BLOCK_POSITIONS, HALF, SINGLE, CacheNumber
from engine.kernels.dot import DOT
from simd.code import F32, F32X16, Code, Val, Var

_FEW_VECTORS = 4 if DOT.rows == 16 else 2
_KEYS_AHEAD = 16
_MANY_VECTORS = 4 if DOT.rows == 16 else 2


def _dimension_runs(code: Code, tile: Tile, vectors: int) -> list[tuple[int, Val, Val]]:
    """Cut the head's dimensions into runs of `vectors` vectors and a rest of single ones."""
    wide = (tile.size // (16 * vectors)) * (16 * vectors)
    return [(vectors, code.i64(0), wide), (1, wide, tile.size)]


def _keys_in_block(code: Code, tile: Tile, number: Val) -> Val:
    left = tile.num_keys - number * BLOCK_POSITIONS
    return (left < BLOCK_POSITIONS).select(left, code.i64(BLOCK_POSITIONS))


def _values(code: Code, tile: Tile, number: Val) -> Val:
    """Return the address of a block's values: [64 positions][head size]."""
    return tile.block(code, number) + tile.number.bytes(tile.size * BLOCK_POSITIONS)


def _weights(code: Code, tile: Tile, query: Val, size: int, number: Val) -> list[Val]:
    first = number * (4 * BLOCK_POSITIONS)
    return [tile.scores + (query + n) * tile.score_stride + first for n in range(size)]


def _add_keys(
    code: Code,
    number: CacheNumber,
    count: Val,
    weights: list[Val],
    values: Val,
    size: Val,
    sums: list[list[Var]],
) -> None:
    """Add `count` keys of one block to sums[query][vector]."""
    with code.loop(0, count) as key:
        address = values + number.bytes(key * size)
        if number is HALF:  # not the widened copy, which is near already
            code.prefetch(address + number.bytes(size) * _KEYS_AHEAD)
        e = [code.load(F32, w + key * 4, align=4).splat(16) for w in weights]
        for v in range(len(sums[0])):
            value = number.load(code, address + 16 * number.size_bytes * v)
            for n, row in enumerate(sums):
                row[v].set(row[v].get() + e[n] * value)


def _few(code: Code, tile: Tile) -> None:
    """Up to four queries: sums stay in registers over all blocks."""
    for size, start, stop in each_subtile(code, 0, tile.queries, (3, 2, 1)):
        with code.loop(start, stop, size) as query:
            for vectors, first, last in _dimension_runs(code, tile, _FEW_VECTORS):
                with code.loop(first, last, 16 * vectors) as d:
                    sums = [
                        [code.var(code.const(F32X16, 0.0)) for _ in range(vectors)]
                        for _ in range(size)
                    ]
                    with code.loop(0, tile.num_blocks) as number:
                        values = _values(code, tile, number) + tile.number.bytes(d)
                        weights = _weights(code, tile, query, size, number)
                        count = _keys_in_block(code, tile, number)
                        _add_keys(code, tile.number, count, weights, values, tile.size, sums)
                    for n, row in enumerate(sums):
                        r = code.load(F32, tile.inverses + (query + n) * 4, align=4).splat(16)
                        target = tile.output_base + tile.query_offset(query + n) + d * 4
                        for v, total in enumerate(row):
                            code.store(total.get() * r, target + 64 * v)


def _many(code: Code, tile: Tile) -> None:
    """More queries: a block of values is widened once, sums wait in the output between blocks."""
    wide_values = tile.scratch
    with code.loop(0, tile.num_blocks) as number:
        count = _keys_in_block(code, tile, number)
        values = _values(code, tile, number)
        with code.loop(0, count * tile.size, 16) as i:
            wide = tile.number.load(code, values + tile.number.bytes(i))
            code.store(wide, wide_values + i * 4, align=64)
        is_first, is_last = number.equals(0), (number + 1).equals(tile.num_blocks)
        for size, start, stop in each_subtile(code, 0, tile.queries, (2, 1)):
            with code.loop(start, stop, size) as query:
                weights = _weights(code, tile, query, size, number)
                for vectors, first, last in _dimension_runs(code, tile, _MANY_VECTORS):
                    with code.loop(first, last, 16 * vectors) as d:
                        targets = [
                            tile.output_base + tile.query_offset(query + n) + d * 4
                            for n in range(size)
                        ]
                        sums = [
                            [code.var(code.const(F32X16, 0.0)) for _ in range(vectors)]
                            for _ in targets
                        ]
                        with code.when(is_first.equals(0)):
                            for target, row in zip(targets, sums, strict=True):
                                for v, total in enumerate(row):
                                    total.set(code.load(F32X16, target + 64 * v))
                        _add_keys(
                            code, SINGLE, count, weights, wide_values + d * 4, tile.size, sums
                        )
                        with code.when(is_last):
                            for n, row in enumerate(sums):
                                r = code.load(F32, tile.inverses + (query + n) * 4, align=4).splat(
                                    16
                                )
                                for total in row:
                                    total.set(total.get() * r)
                        for target, row in zip(targets, sums, strict=True):
                            for v, total in enumerate(row):
                                code.store(total.get(), target + 64 * v)


def emit_weighted_sum(code: Code, tile: Tile) -> None:
    """Write o[query][dim]."""
    with code.choose(tile.queries > FEW_QUERIES) as (many, few):
        with many:
            _many(code, tile)
        with few:
            _few(code, tile)
