"""Single operations on the kernels, through the vocabulary in which model files are written."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.kernels import ops
from engine.kernels import program as layout
from engine.kernels.attention_tile import TILE_WORDS
from engine.kernels.linear_integer import ACTIVATION_BYTES
from engine.kernels.pool import Pool
from engine.kv.cache import BlockPool
from engine.memory.buffers import address_of
from engine.models.graph import Graph, Rows
from engine.reference.weights import Weight
from tests.engine.kernels.models import MemoryWeights, small_config

Array = NDArray[Any]

# One block of 32 activations (NUMERICS N3): the integers, a, and sums of the integers.
BLOCK = np.dtype(
    [
        ("xq", "i1", 32),
        ("a", "<f4"),
        ("sum", "<f4"),
        ("sum_times_8", "<i4"),
        ("sum_of_first_half", "<i4"),
    ]
)
assert BLOCK.itemsize == ACTIVATION_BYTES


def blocks_of(xq: Array, a: Array) -> Array:
    """Return activations as the linear kernels read them.

    Args:
        xq: int8[rows, K].
        a: float32[rows, K / 32].
    """
    blocks = np.zeros(a.shape, BLOCK)
    blocks["xq"] = xq.reshape(*a.shape, 32)
    blocks["a"] = a
    total = xq.reshape(*a.shape, 32).astype(np.int64).sum(axis=-1)
    blocks["sum"] = total
    blocks["sum_times_8"] = total * 8
    blocks["sum_of_first_half"] = xq.reshape(*a.shape, 32)[..., :16].astype(np.int64).sum(axis=-1)
    return blocks


class Pieces:
    """A graph and a pool for a few operations on given rows.

    `weights` are the tensors that the operations name; changes of the small model's configuration
    are keywords.
    """

    def __init__(
        self, weights: Mapping[str, Weight], *, num_threads: int = 2, **changes: Any
    ) -> None:
        self.config = small_config(num_layers=1, **changes)
        self._weights = MemoryWeights(self.config, weights)
        self.cache_blocks = BlockPool(self.config, max_blocks=8)
        self.graph = Graph(
            self._weights,
            layer_bytes=self.cache_blocks.layer_bytes,
            single_cache=False,
            num_threads=num_threads,
            max_rows=64,
            max_outputs=64,
            max_positions=256,
        )
        self.program = self.graph.program
        self._num_threads = num_threads
        self._kept: list[Array] = []

    def rows(self, floats: Array | None = None, blocks: Array | None = None) -> Rows:
        """Return rows for the graph: a copy of float32[rows, size], or BLOCK[rows, size / 32]."""
        size = blocks.shape[1] * 32 if blocks is not None else 0
        if floats is not None:
            floats = np.array(floats, np.float32, order="C")  # operations write into their inputs
            size = floats.shape[1]
        self._kept += [x for x in (floats, blocks) if x is not None]
        return Rows(
            size,
            0 if floats is None else address_of(floats),
            0 if blocks is None else address_of(blocks),
        )

    def tables_of_one_block(self, num_rows: int) -> Array:
        """Return rows' block tables by which all positions of all rows lie in the same block."""
        table = np.full((1 << 20) // 64, self.cache_blocks.address(self.cache_blocks.take()))
        self._kept.append(table)
        return np.full(num_rows, address_of(table), np.int64)

    def run(
        self,
        num_rows: int,
        *,
        positions: Sequence[int] | None = None,
        tables: Array | None = None,
        tiles: Sequence[tuple[int, int, int, int]] = (),
    ) -> Array:
        """Run what was written; return the rows' error flags.

        Args:
            num_rows: rows of the step, all of whose logits are wanted.
            positions: of the rows.
            tables: int64[rows], addresses of the rows' block tables.
            tiles: attention's.
        """
        step = np.zeros(layout.STEP_WORDS, np.int64)
        places = np.array(range(num_rows) if positions is None else positions, np.int32)
        outputs = np.arange(num_rows, dtype=np.int32)
        errors = np.zeros(num_rows, np.int32)
        tile_array = np.array(tiles, np.int64).reshape(-1, TILE_WORDS)
        step[layout.STEP_ROWS] = step[layout.STEP_NUM_OUTPUTS] = num_rows
        step[layout.STEP_POSITIONS] = address_of(places)
        step[layout.STEP_OUTPUT_ROWS] = address_of(outputs)
        step[layout.STEP_BASES] = address_of(self._weights.bases)
        step[layout.STEP_ERRORS] = address_of(errors)
        step[layout.STEP_NUM_TILES] = len(tile_array)
        step[layout.STEP_TILES] = address_of(tile_array)
        if tables is not None:
            step[layout.STEP_BLOCK_TABLES] = address_of(tables)
        program = self.program.to_array()
        # Operations follow each other here that have others between them in a model.
        program[:, layout.BARRIER] = 1
        pool = Pool(self._num_threads)
        pool.run(program, step)
        pool.close()
        return errors


def read_floats(address: int, *shape: int) -> Array:
    """Return a copy of the float32 numbers at an address."""
    count = int(np.prod(shape))
    return (
        np.ctypeslib.as_array((ctypes.c_float * count).from_address(address)).reshape(shape).copy()
    )


def read_blocks(address: int, *shape: int) -> Array:
    """Return a copy of the activation blocks at an address."""
    size = int(np.prod(shape)) * BLOCK.itemsize
    return np.frombuffer(ctypes.string_at(address, size), BLOCK).reshape(shape)


def linear(weight: Weight, rows: Array, bias: Array | None = None, num_threads: int = 2) -> Array:
    """Return float32[rows, N] of a linear layer.

    Args:
        weight: the matrix [N, K].
        rows: float32[rows, K] for a float kind, blocks [rows, K / 32] for an integer kind.
        bias: float32[N] or None.
        num_threads: of the pool.
    """
    outputs = weight.shape[0]
    tensors = {"head": weight}
    if bias is not None:
        padded = np.zeros(-(-outputs // 16) * 16, np.float32)
        padded[:outputs] = bias
        tensors["head_bias"] = Weight("F32", {"w": padded})
    pieces = Pieces(tensors, num_threads=num_threads, vocab_size=outputs)
    is_float = rows.dtype == np.float32
    pieces.graph.head(
        pieces.rows(floats=rows) if is_float else pieces.rows(blocks=np.ascontiguousarray(rows)),
        "head",
    )
    pieces.run(len(rows))
    return pieces.graph.logits[: len(rows)].copy()


def quantise(x: Array) -> tuple[Array, Array]:
    """Return the activation blocks [rows, K / 32] of float32[rows, K], and the error flags."""
    pieces = Pieces({})
    blocks = np.zeros((x.shape[0], x.shape[1] // 32), BLOCK)
    blocks.view(np.uint8)[:] = 0xAA
    source, target = pieces.rows(floats=x), pieces.rows(blocks=blocks)
    pieces.program.add(
        ops.quantise, 0, source.size, source.floats, 0, target.quantised, layout.STEP_ROWS
    )
    return blocks, pieces.run(len(x))


def rope_table(positions: Sequence[int], inv_freq_bits: Sequence[int]) -> tuple[Array, Array]:
    """Return cosines and sines float32[positions, pairs]."""
    pieces = Pieces({})
    frequencies = np.array(inv_freq_bits, np.uint64)
    pairs = len(frequencies)
    table = np.zeros((len(positions), 2, pairs), np.float32)
    pieces.program.add(ops.rope_table, address_of(frequencies), pairs, address_of(table))
    pieces.run(len(positions), positions=positions)
    return table[:, 0], table[:, 1]


class Heads(NamedTuple):
    """What attention left: float32[rows, heads, head size].

    Attributes:
        scaled: queries after norm, rotation and scaling.
        output: the attended values.
        errors: the rows' error flags.
    """

    scaled: Array
    output: Array
    errors: Array


def attend(
    pieces: Pieces,
    q: Array,
    k: Array,
    v: Array,
    positions: Sequence[int],
    tables: Array,
    tiles: Sequence[tuple[int, int, int, int]] = (),
) -> Heads:
    """Rotate, store and attend, as layer 0 does.

    Args:
        pieces: new, with `q_norm` and `k_norm` among its weights if heads are normalised.
        q: float32[rows, heads, head size].
        k: float32[rows, key/value heads, head size].
        v: like k.
        positions: of the rows.
        tables: int64[rows], addresses of the rows' block tables.
        tiles: (first row, rows, first position, address of the block table).
    """
    rows = len(q)
    sources = [pieces.rows(floats=x.reshape(rows, -1)) for x in (q, k, v)]
    pieces.graph.rope_table()
    output = pieces.graph.attention(0, *sources, q_norm="q_norm", k_norm="k_norm")
    errors = pieces.run(rows, positions=positions, tables=tables, tiles=tiles)
    return Heads(
        read_floats(sources[0].floats, *q.shape), read_floats(output.floats, *q.shape), errors
    )
