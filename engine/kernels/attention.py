"""Attention over the binary16 cache (NUMERICS N9): in scores a lane is a key, in the weighted sum a dimension.

A tile is a few consecutive rows of one sequence; the query heads that share a key/value head are worked on together, so that
each key and value is widened once for all of them. All scores of a tile are kept (no running maximum), because the order of
every sum is the written one.

The step's table of tiles holds int64 (first row, rows, first position, address of the block table).
"""

from __future__ import annotations

from typing import Final

from engine.kernels.dot import DOT
from engine.kernels.functions import (
    INFINITY_BITS,
    exp,
    fold_integers,
    fold_sum,
    lane_numbers,
    magnitude_bits,
)
from engine.kernels.program import STEP_NUM_TILES, STEP_TILES, argument, grab
from engine.kernels.rope import BLOCK_POSITIONS, KEYS_IN_VECTOR
from engine.kernels.rows import flag_row
from engine.kernels.simd import F16, F32, F32X16, I32, I32X16, Code, Val, vec

MAX_QUERIES: Final = 16  # query vectors of a tile: rows times heads that share a key/value head
TILE_WORDS: Final = 4
_GROUPS_IN_BLOCK: Final = BLOCK_POSITIONS // KEYS_IN_VECTOR

# Arguments.
QUERIES, OUTPUT, KV_HEADS, SHARED, HEAD_SIZE, LAYER_OFFSET, SCRATCH, SCRATCH_STRIDE, STRIDE = range(9)


class _Tile:
    """The values that the three phases of one tile and key/value head share."""

    def __init__(self, code: Code, instruction: Val, step: Val, thread: Val, item: Val) -> None:
        kv_heads, self.shared = argument(code, instruction, KV_HEADS), argument(code, instruction, SHARED)
        self.size = argument(code, instruction, HEAD_SIZE)
        tile = code.word(step, STEP_TILES) + (item // kv_heads) * (8 * TILE_WORDS)
        self.first_row, rows = code.word(tile, 0), code.word(tile, 1)
        self.first_position, self.table = code.word(tile, 2), code.word(tile, 3)
        self.queries = rows * self.shared
        self.num_keys = self.first_position + rows
        self.num_groups = (self.num_keys + (KEYS_IN_VECTOR - 1)) // KEYS_IN_VECTOR
        self.score_stride = self.num_groups * (4 * KEYS_IN_VECTOR)
        head = item % kv_heads
        self.head_offset = head * self.size * (4 * BLOCK_POSITIONS) + argument(
            code, instruction, LAYER_OFFSET
        )
        scratch = argument(code, instruction, SCRATCH)
        self.scratch = scratch + thread * argument(code, instruction, SCRATCH_STRIDE)
        self.scores = self.scratch + self.size * (4 * BLOCK_POSITIONS)
        self.stride = argument(code, instruction, STRIDE)
        heads = head * self.shared * self.size * 4
        self.query_base = argument(code, instruction, QUERIES) + heads
        self.output_base = argument(code, instruction, OUTPUT) + heads

    def query_offset(self, query: Val) -> Val:
        """Byte offset of query number `query` (rows ascending, shared heads inside)."""
        row, head = query // self.shared, query % self.shared
        return (self.first_row + row) * self.stride + head * self.size * 4

    def block(self, code: Code, number: Val) -> Val:
        """Address of this head's keys in cache block `number`; the values follow them."""
        return code.word(self.table + number * 8, 0) + self.head_offset

    def keys_of(self, query: Val) -> Val:
        """Number of keys that query `query` attends to."""
        return self.first_position + query // self.shared + 1


def _each_subtile(code: Code, total: Val, sizes: tuple[int, ...]):  # type: ignore[no-untyped-def]
    """Yield (size, start, stop) contexts' values that cut `total` queries into subtiles of the given sizes."""
    done = code.var(code.i64(0))
    for size in sizes:
        start = done.get()
        stop = start + ((total - start) // size) * size
        done.set(stop)
        yield size, start, stop


def _scores(code: Code, tile: _Tile) -> None:
    """z[query][key] for all keys; keys ascend, lanes are keys, dimensions ascend."""
    wide_keys = tile.scratch
    with code.loop(0, tile.num_groups) as group:
        keys = tile.block(code, group // _GROUPS_IN_BLOCK)
        keys = keys + (group % _GROUPS_IN_BLOCK) * tile.size * (2 * KEYS_IN_VECTOR)
        with code.loop(0, tile.size) as d:
            narrow = code.load(vec(F16, 16), keys + d * 32)
            code.store(narrow.fpext(F32X16), wide_keys + d * 64, align=64)
        for size, start, stop in _each_subtile(code, tile.queries, (4, 2, 1)):
            with code.loop(start, stop, size) as query:
                addresses = [tile.query_base + tile.query_offset(query + n) for n in range(size)]
                sums = [code.var(code.const(F32X16, 0.0)) for _ in range(size)]
                with code.loop(0, tile.size) as d:
                    key = code.load(F32X16, wide_keys + d * 64, align=64)
                    for address, total in zip(addresses, sums, strict=True):
                        total.set(total.get() + key * code.load(F32, address + d * 4).splat(16))
                for n, total in enumerate(sums):
                    code.store(total.get(), tile.scores + (query + n) * tile.score_stride + group * 64)


def _softmax(code: Code, step: Val, tile: _Tile) -> None:
    """Turn each query's scores into e (N9 step 3); 1 / sum goes behind the last query's scores."""
    lanes = lane_numbers(code)
    lowest = code.bits(F32X16, 0xFF800000)
    zero = code.const(F32X16, 0.0)
    inverse = tile.scores + tile.queries * tile.score_stride
    with code.loop(0, tile.queries) as query:
        scores = tile.scores + query * tile.score_stride
        num_keys = tile.keys_of(query).trunc(I32).splat(16)
        largest, worst = code.var(lowest), code.var(code.const(I32X16, 0))
        with code.loop(0, tile.num_groups) as group:
            z = code.load(F32X16, scores + group * 64)
            valid = (lanes + (group * 16).trunc(I32).splat(16)) < num_keys
            worst.set(code.overloaded("llvm.umax", worst.get(), magnitude_bits(code, valid.select(z, zero))))
            z = valid.select(z, lowest)
            largest.set((z > largest.get()).select(z, largest.get()))
        row = tile.first_row + query // tile.shared
        flag_row(code, step, row, fold_integers(code, worst.get(), "max") >= INFINITY_BITS)
        values, width = largest.get(), 8
        while width:
            low, high = values.shuffle(list(range(width))), values.shuffle(list(range(width, 2 * width)))
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
        code.store(code.const(F32, 1.0) / fold_sum(code, sums.get()), inverse + query * 4, align=4)


def _weighted_sum(code: Code, tile: _Tile) -> None:
    """o[query][dim]; keys ascend, lanes are dimensions. A key beyond a row's own position has e = +0.0: it changes no bit."""
    inverse = tile.scores + tile.queries * tile.score_stride
    num_blocks = (tile.num_keys + (BLOCK_POSITIONS - 1)) // BLOCK_POSITIONS
    vectors = 4 if DOT.rows == 16 else 2
    for size, start, stop in _each_subtile(code, tile.queries, (3, 2, 1)):
        with code.loop(start, stop, size) as query:
            wide = (tile.size // (16 * vectors)) * (16 * vectors)
            for width, first, last in ((vectors, code.i64(0), wide), (1, wide, tile.size)):
                with code.loop(first, last, 16 * width) as d:
                    sums = [[code.var(code.const(F32X16, 0.0)) for _ in range(width)] for _ in range(size)]
                    with code.loop(0, num_blocks) as number:
                        values = tile.block(code, number) + tile.size * (2 * BLOCK_POSITIONS) + d * 2
                        first_key = number * BLOCK_POSITIONS
                        left = tile.num_keys - first_key
                        count = (left < BLOCK_POSITIONS).select(left, code.i64(BLOCK_POSITIONS))
                        weights = [
                            tile.scores + (query + n) * tile.score_stride + first_key * 4
                            for n in range(size)
                        ]
                        with code.loop(0, count) as key:
                            address = values + key * tile.size * 2
                            e = [code.load(F32, w + key * 4, align=4).splat(16) for w in weights]
                            for v in range(width):
                                narrow = code.load(vec(F16, 16), address + 32 * v)
                                value = narrow.fpext(F32X16)
                                for n in range(size):
                                    sums[n][v].set(sums[n][v].get() + e[n] * value)
                    for n in range(size):
                        r = code.load(F32, inverse + (query + n) * 4, align=4).splat(16)
                        target = tile.output_base + tile.query_offset(query + n) + d * 4
                        for v in range(width):
                            code.store(sums[n][v].get() * r, target + 64 * v)


def scratch_bytes(head_size: int, max_keys: int) -> int:
    """Return the scratch of one thread: one widened block of keys, a tile's scores and their inverses."""
    padded = -(-max_keys // KEYS_IN_VECTOR) * KEYS_IN_VECTOR
    return head_size * 4 * BLOCK_POSITIONS + MAX_QUERIES * (4 * padded + 4) + 64


def emit_attention(code: Code, instruction: Val, step: Val, thread: Val) -> None:
    """Emit the kernel: (tile, key/value head) pairs shared by the threads."""
    kv_heads = argument(code, instruction, KV_HEADS)
    total = code.word(step, STEP_NUM_TILES) * kv_heads
    with grab(code, instruction, total, 1) as (begin, end):
        with code.loop(begin, end) as item:
            tile = _Tile(code, instruction, step, thread, item)
            _scores(code, tile)
            _softmax(code, step, tile)
            _weighted_sum(code, tile)


