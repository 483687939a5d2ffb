"""One tile of attention: which rows, keys and addresses its three phases work on.

A tile is a few consecutive rows of one sequence; the query heads that share a key/value head are
worked on together, so that each key and value is widened once for all of them. The step's table of
tiles holds int64 (first row, rows, first position, address of the block table).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from engine.kernels.cache_number import BLOCK_POSITIONS, KEYS_IN_VECTOR, CacheNumber
from engine.kernels.program import STEP_TILES, argument
from simd.code import Code, Val

MAX_QUERIES: Final = 24  # query vectors of a tile: rows times heads that share a key/value head
FEW_QUERIES: Final = (
    4  # up to here keys and values are widened as they are used, beyond that once for all
)
TILE_WORDS: Final = 4
GROUPS_IN_BLOCK: Final = BLOCK_POSITIONS // KEYS_IN_VECTOR

# Arguments of the kernel.
QUERIES, OUTPUT, KV_HEADS, SHARED, HEAD_SIZE, LAYER_OFFSET, SCRATCH, SCRATCH_STRIDE, STRIDE = range(
    9
)


class Tile:
    """The values that the three phases of one tile and key/value head share."""

    def __init__(
        self, code: Code, number: CacheNumber, instruction: Val, step: Val, thread: Val, item: Val
    ) -> None:
        """Work out the addresses of work item `item`: tile item // heads, head item % heads."""
        self.number = number
        kv_heads, self.shared = (
            argument(code, instruction, KV_HEADS),
            argument(code, instruction, SHARED),
        )
        self.size = argument(code, instruction, HEAD_SIZE)
        tile = code.word(step, STEP_TILES) + (item // kv_heads) * (8 * TILE_WORDS)
        self.first_row, rows = code.word(tile, 0), code.word(tile, 1)
        self.first_position, self.table = code.word(tile, 2), code.word(tile, 3)
        self.queries = rows * self.shared
        self.num_keys = self.first_position + rows
        self.num_groups = (self.num_keys + (KEYS_IN_VECTOR - 1)) // KEYS_IN_VECTOR
        self.num_blocks = (self.num_keys + (BLOCK_POSITIONS - 1)) // BLOCK_POSITIONS
        self.score_stride = self.num_blocks * (4 * BLOCK_POSITIONS)
        head = item % kv_heads
        self.head_offset = number.bytes(head * self.size * (2 * BLOCK_POSITIONS)) + argument(
            code, instruction, LAYER_OFFSET
        )
        scratch = argument(code, instruction, SCRATCH)
        self.scratch = scratch + thread * argument(code, instruction, SCRATCH_STRIDE)
        self.scores = self.scratch + self.size * (4 * BLOCK_POSITIONS)
        self.inverses = self.scores + self.queries * self.score_stride
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


def each_subtile(
    code: Code, start: Val | int, total: Val, sizes: tuple[int, ...]
) -> Iterator[tuple[int, Val, Val]]:
    """Cut `total` items into runs: yields (size, start, stop), for a loop in steps of size."""
    done = code.var(start if isinstance(start, Val) else code.i64(start))
    for size in sizes:
        begin = done.get()
        stop = begin + ((total - begin) // size) * size
        done.set(stop)
        yield size, begin, stop


def scratch_bytes(head_size: int, max_keys: int) -> int:
    """Return the scratch of one thread: one widened block, a tile's scores, their inverse sums."""
    padded = -(-max_keys // BLOCK_POSITIONS) * BLOCK_POSITIONS
    return head_size * 4 * BLOCK_POSITIONS + MAX_QUERIES * (4 * padded + 4) + 64
