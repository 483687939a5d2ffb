"""Scores (NUMERICS N9 step 2): a lane is a key, dimensions ascend."""

from __future__ import annotations

from engine.kernels.attention_tile import FEW_QUERIES, GROUPS_IN_BLOCK, Tile, each_subtile
from engine.kernels.cache_number import KEYS_IN_VECTOR
from simd.code import F32, F32X16, Code, Val

_PREFETCH_BYTES = 2048
_UNROLLED = 4  # dimensions in one turn of the inner loop: a head's size is a multiple of 16


def _keys(code: Code, tile: Tile, group: Val) -> Val:
    """Return the address of the sixteen keys of a group: [head size][16]."""
    block = tile.block(code, group // GROUPS_IN_BLOCK)
    return block + (group % GROUPS_IN_BLOCK) * tile.number.bytes(tile.size * KEYS_IN_VECTOR)


def _widened(code: Code, tile: Tile, address: Val, d: Val) -> Val:
    return tile.number.load(code, address + tile.number.bytes(d * KEYS_IN_VECTOR))


def _few(code: Code, tile: Tile) -> None:
    """Widen each key in a register; one or two queries take two groups for more chains."""
    for size, start, stop in each_subtile(code, 0, tile.queries, (4, 3, 2, 1)):
        groups = 1 if size > 2 else 2
        with code.loop(start, stop, size) as query:
            addresses = [tile.query_base + tile.query_offset(query + n) for n in range(size)]
            with code.loop(0, tile.num_groups, groups) as group:
                keys = [_keys(code, tile, group + n) for n in range(groups)]
                sums = [[code.var(code.const(F32X16, 0.0)) for _ in keys] for _ in addresses]
                with code.loop(0, tile.size, _UNROLLED) as first:
                    for k in keys:
                        ahead = first * 32 + _PREFETCH_BYTES
                        for line in range(0, 32 * _UNROLLED, 64):
                            code.prefetch(k + (ahead + line))
                    for d in (first + n for n in range(_UNROLLED)):
                        wide = [_widened(code, tile, k, d) for k in keys]
                        for address, row in zip(addresses, sums, strict=True):
                            q = code.load(F32, address + d * 4).splat(16)
                            for key, total in zip(wide, row, strict=True):
                                total.set(total.get() + key * q)
                for n, row in enumerate(sums):
                    target = tile.scores + (query + n) * tile.score_stride + group * 64
                    for g, total in enumerate(row):
                        code.store(total.get(), target + 64 * g)


def _many(code: Code, tile: Tile) -> None:
    """More queries: a group of keys is widened once into scratch, then all queries pass over it."""
    wide_keys = tile.scratch
    with code.loop(0, tile.num_groups) as group:
        keys = _keys(code, tile, group)
        with code.loop(0, tile.size) as d:
            code.store(_widened(code, tile, keys, d), wide_keys + d * 64, align=64)
        for size, start, stop in each_subtile(code, 0, tile.queries, (4, 3, 2, 1)):
            with code.loop(start, stop, size) as query:
                addresses = [tile.query_base + tile.query_offset(query + n) for n in range(size)]
                sums = [code.var(code.const(F32X16, 0.0)) for _ in range(size)]
                with code.loop(0, tile.size, _UNROLLED) as first:
                    for d in (first + n for n in range(_UNROLLED)):
                        key = code.load(F32X16, wide_keys + d * 64, align=64)
                        for address, total in zip(addresses, sums, strict=True):
                            q = code.load(F32, address + d * 4).splat(16)
                            total.set(total.get() + key * q)
                for n, total in enumerate(sums):
                    target = tile.scores + (query + n) * tile.score_stride + group * 64
                    code.store(total.get(), target)


def emit_scores(code: Code, tile: Tile) -> None:
    """Write z[query][key]; lanes beyond a query's keys hold values that nothing reads."""
    with code.choose(tile.queries > FEW_QUERIES) as (many, few):
        with many:
            _many(code, tile)
        with few:
            _few(code, tile)
