"""One step of the engine: the forward pass over pieces of several sequences at once."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from crypto.kernels.bulk import LaneBulk
from crypto.kernels.load import load_bulk
from crypto.merkle import LEAF_PREFIX
from crypto.sm3 import DIGEST_BYTES
from crypto.sm3_rows import RowHasher
from engine.errors import ConfigError, NonFiniteError
from engine.kernels import program as layout
from engine.kernels.attention_tile import MAX_QUERIES, TILE_WORDS
from engine.kernels.pool import MAX_THREADS, Pool
from engine.kv.blocks import layer_bytes
from engine.kv.budget import KvBudget
from engine.kv.cache import BLOCK_POSITIONS, BlockPool, SequenceCache
from engine.kv.pager import open_pager
from engine.leaf_hasher import LeafHasher
from engine.memory.buffers import address_of
from engine.memory.streamed import StreamedWeights
from engine.memory.weights import Weights, read_vector
from engine.models import write_forward
from engine.models.graph import Graph
from engine.pooling import Pooling
from engine.trace import leaf_hashes

DEFAULT_MAX_ROWS: Final = 512
# So many times the lanes of the hash function are hashed layer by layer, and at most a fifth of the
# lanes idles; the few rows of a decode step are hashed all layers together behind it.
_FULL_LANES: Final = 4


@dataclass(slots=True)
class Piece:
    """Consecutive positions of one sequence in a step.

    Prefill chunks have many ids, decode steps one. `num_logits` asks for the logits of that many
    last positions.
    """

    cache: SequenceCache
    ids: NDArray[np.int32]
    num_logits: int = 0


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step gave, piece by piece.

    logits: float32[sum of num_logits, vocab], a view that the next step overwrites.
    states: float32[rows, hidden] x(t, L) of every row, a view that the next step overwrites.
    residuals: float32[layers + 1, rows, hidden] x(t, l) of every row, if they were asked for.
    leaves: uint8[layers + 1, rows, 32], the hashes of these (NUMERICS N11), if they were asked for.
    errors: for each piece None, or why its sequence must end (NUMERICS N12).
    """

    logits: NDArray[np.float32]
    states: NDArray[np.float32]
    residuals: NDArray[np.float32] | None
    leaves: NDArray[np.uint8] | None
    errors: tuple[NonFiniteError | None, ...]


class Engine:
    """A model ready to run on a pool of threads."""

    def __init__(
        self,
        weights: Weights | StreamedWeights,
        *,
        num_threads: int,
        max_rows: int = DEFAULT_MAX_ROWS,
        max_outputs: int = 64,
        max_positions: int | None = None,
        max_blocks: int | None = None,
        single_cache: bool = False,
        kv_budget: KvBudget | None = None,
    ) -> None:
        """Write the model's program and start the threads, which end with this object.

        Args:
            weights: the model; kept alive by this object.
            num_threads: 1 to 256.
            max_rows: most positions in one step.
            max_outputs: most positions whose logits one step can give.
            max_positions: longest sequence, by default the model's context and never longer than
                that or than the whole cache.
            max_blocks: most cache blocks of 64 positions, by default as many as one longest
                sequence needs, four times.
            single_cache: keep keys and values as f32: profile `wh1-float` (NUMERICS N13), with
                weights as floats.
            kv_budget: how much memory the cache may take, and where the rest goes; None: all is in
                memory.

        Raises:
            ConfigError: a number that is not positive, too many threads, or too small a budget.
            SpillError: the file for the rest of the cache cannot be made.
            UnsupportedError: the kernels cannot work on such a model.
            WeightsError: a tensor is missing or has another shape.
        """
        self.config = weights.config
        self._weights = weights
        self._streamed = weights if isinstance(weights, StreamedWeights) else None
        self.max_rows, self.max_outputs = max_rows, max_outputs
        context = self.config.context_length_tokens
        wanted = context if max_positions is None else max_positions
        longest = -(-min(wanted, context) // BLOCK_POSITIONS)
        num_blocks = 4 * longest if max_blocks is None else max_blocks
        # A sequence longer than the whole cache could never be computed.
        self.max_positions = min(wanted, context, num_blocks * BLOCK_POSITIONS)
        _check_settings(
            num_threads=num_threads,
            max_rows=max_rows,
            max_outputs=max_outputs,
            max_positions=wanted,
            max_blocks=num_blocks,
        )
        number_bytes = 4 if single_cache else 2
        graph = Graph(
            weights,
            layer_bytes=layer_bytes(self.config, number_bytes),
            single_cache=single_cache,
            num_threads=num_threads,
            max_rows=max_rows,
            max_outputs=max_outputs,
            max_positions=self.max_positions,
            window_bytes=None if self._streamed is None else self._streamed.window_bytes,
        )
        write_forward(graph)
        self._graph = graph
        self._program = graph.program.to_array()
        self._stages = graph.stages()
        bulk = load_bulk()
        self._pager = None
        if kv_budget is not None:
            self._pager = open_pager(
                kv_budget,
                self.config,
                max_blocks=num_blocks,
                max_rows=max_rows,
                max_outputs=max_outputs,
                number_bytes=number_bytes,
                bulk=bulk,
                num_threads=num_threads,
            )
        if self._pager is None:
            self.blocks = BlockPool(self.config, max_blocks=num_blocks, number_bytes=number_bytes)
        else:
            self.blocks = self._pager.pool
        self._pool = Pool(num_threads)
        self.row_hasher = RowHasher(bulk, num_threads=num_threads)
        self._leaf_hasher = None
        if isinstance(bulk, LaneBulk):
            self._leaf_hasher = LeafHasher(bulk, LEAF_PREFIX, num_threads)
        # Not at exit: a thread may still be computing then, and the process takes all with it.
        self._end_threads = weakref.finalize(self, self._pool.close)
        self._end_threads.atexit = False
        if self._streamed is not None:
            weakref.finalize(self, self._streamed.close).atexit = False
        if self._pager is not None:
            weakref.finalize(self, self._pager.close).atexit = False
        shared = self.config.num_heads // self.config.num_kv_heads
        self._tile_rows = max(1, MAX_QUERIES // shared)
        self._step = np.zeros(layout.STEP_WORDS, np.int64)
        self.layers_begun = 0
        """In all steps: progress that others may look at while a step runs."""

    @property
    def num_threads(self) -> int:
        """Threads that compute."""
        return self._pool.num_threads

    def new_cache(self, max_positions: int | None = None) -> SequenceCache:
        """Return an empty cache for one sequence.

        Raises:
            ConfigError: `max_positions` is not positive, or more than the engine's.
        """
        wanted = self.max_positions if max_positions is None else max_positions
        if wanted > self.max_positions:
            raise ConfigError(f"{wanted} positions are more than the engine's {self.max_positions}")
        return SequenceCache(self.blocks, wanted)

    def new_pooling(self) -> Pooling:
        """Return what makes the vector of one text (NUMERICS N14).

        Raises:
            ConfigError: the model does not say how.
        """
        config = self.config
        if config.pooling is None:
            raise ConfigError("this model makes no vectors of texts")
        norm = read_vector(self._weights, "final_norm")
        return Pooling(config.pooling, norm, config.norm_eps_bits)

    def close(self) -> None:
        """End the threads, close files of weights and cache; a second call does nothing."""
        self._end_threads()
        self.row_hasher.close()
        if self._streamed is not None:
            self._streamed.close()
        if self._pager is not None:
            self._pager.close()

    def step(
        self, pieces: Sequence[Piece], *, trace: bool = False, leaves: bool = False
    ) -> StepResult:
        """Run all pieces through the model in one pass over the weights.

        Args:
            pieces: what to compute.
            trace: whether to keep the residual stream.
            leaves: whether to hash it.

        Where it raises, nothing has been computed and no cache has changed.

        Raises:
            ConfigError: no rows or too many, too many logits, an id outside the vocabulary, a cache
                that is full, not of this engine or there twice, or a closed engine.
            EngineError: the pool has too few blocks left.
            WeightsError: streamed weights are not those that were accepted.
            WeightsUncheckedError: streamed weights could not be read.
            SpillError: cached positions could not be written to their file, or read from it.
            SpillIntegrityError: they are not those that were written.
        """
        ids = self._check_step(pieces)
        rows = len(ids)
        num_logits = sum(p.num_logits for p in pieces)
        residuals = hashes = None
        columns = self.config.num_layers + 1
        in_step = leaves and self._can_hash_in_step(rows)
        if in_step:
            hashes = np.empty((columns, rows, DIGEST_BYTES), np.uint8)
        if trace or (leaves and not in_step):
            residuals = np.empty((columns, rows, self.config.hidden_size), np.float32)
        for piece in pieces:
            piece.cache.reserve(len(piece.ids))
        errors = self._run(pieces, ids, residuals, hashes)
        if residuals is not None and leaves and not in_step:
            hashes = leaf_hashes(residuals, self.row_hasher)
        found = []
        start = 0
        for piece in pieces:
            stop = start + len(piece.ids)
            found.append(_error(piece) if errors[start:stop].any() else None)
            piece.cache.advance(len(piece.ids))
            start = stop
        logits = self._graph.logits[:num_logits]
        states = self._graph.states[:rows]
        return StepResult(logits, states, residuals if trace else None, hashes, tuple(found))

    def _can_hash_in_step(self, rows: int) -> bool:
        """Return whether a layer's rows nearly fill the hasher's lanes by themselves."""
        hasher = self._leaf_hasher
        return hasher is not None and rows >= _FULL_LANES * hasher.lanes

    def _check_step(self, pieces: Sequence[Piece]) -> NDArray[np.int32]:
        """Refuse what cannot be computed, before anything changes; return the ids of all rows."""
        if not self._end_threads.alive:
            raise ConfigError("the engine is closed")
        rows = sum(len(p.ids) for p in pieces)
        if not 0 < rows <= self.max_rows or not all(len(p.ids) for p in pieces):
            raise ConfigError(f"a step takes 1 to {self.max_rows} positions, not {rows}")
        if not all(0 <= p.num_logits <= len(p.ids) for p in pieces) or self.max_outputs < sum(
            p.num_logits for p in pieces
        ):
            raise ConfigError(
                f"a step gives the logits of at most {self.max_outputs} of its positions"
            )
        ids = np.concatenate([p.ids for p in pieces])
        if int(ids.min()) < 0 or int(ids.max()) >= self.config.vocab_size:
            raise ConfigError("a token id is outside the vocabulary")
        if any(p.cache.pool is not self.blocks for p in pieces):
            raise ConfigError("a cache belongs to another engine")
        if len({id(p.cache) for p in pieces}) < len(pieces):
            raise ConfigError("a sequence takes part in a step only once")
        for p in pieces:
            if p.cache.num_positions + len(p.ids) > self.max_positions:
                raise ConfigError(f"a sequence has at most {self.max_positions} positions")
        self.blocks.require(sum(p.cache.num_blocks_missing(len(p.ids)) for p in pieces))
        return ids.astype(np.int32)

    def _run(
        self,
        pieces: Sequence[Piece],
        ids: NDArray[np.int32],
        residuals: NDArray[np.float32] | None,
        leaves: NDArray[np.uint8] | None,
    ) -> NDArray[np.int32]:
        positions = np.concatenate(
            [np.arange(p.cache.num_positions, p.cache.num_positions + len(p.ids)) for p in pieces]
        ).astype(np.int32)
        tables = np.repeat(
            np.array([address_of(p.cache.table) for p in pieces], np.int64),
            [len(p.ids) for p in pieces],
        )
        tiles = self._tiles(pieces)
        outputs = self._output_rows(pieces)
        errors = np.zeros(len(ids), np.int32)
        if self._streamed is not None:
            ids = self._streamed.gather(ids)
        step = self._step
        step[layout.STEP_ROWS] = len(ids)
        step[layout.STEP_IDS] = address_of(ids)
        step[layout.STEP_POSITIONS] = address_of(positions)
        step[layout.STEP_BLOCK_TABLES] = address_of(tables)
        step[layout.STEP_NUM_TILES] = len(tiles)
        step[layout.STEP_TILES] = address_of(tiles)
        step[layout.STEP_NUM_OUTPUTS] = len(outputs)
        step[layout.STEP_OUTPUT_ROWS] = address_of(outputs)
        step[layout.STEP_BASES] = address_of(self._weights.bases)
        step[layout.STEP_ERRORS] = address_of(errors)
        step[layout.STEP_PRIVATE] = int(len(ids) == 1)
        step[layout.STEP_TRACE] = 0 if residuals is None else address_of(residuals)
        step[layout.STEP_LEAVES] = 0 if leaves is None else address_of(leaves)
        step[layout.STEP_HASHER] = 0 if self._leaf_hasher is None else self._leaf_hasher.address
        has_pages = self._pager is not None and self._pager.begin([p.cache for p in pieces])
        self._execute(step, has_outputs=len(outputs) > 0, has_pages=has_pages)
        return errors

    def _execute(self, step: NDArray[np.int64], *, has_outputs: bool, has_pages: bool) -> None:
        """Run the program: as a whole, or in parts between which weights or positions come."""
        weights, pager = self._streamed, self._pager if has_pages else None
        if weights is None and pager is None:
            self.layers_begun += self.config.num_layers
            self._pool.run(self._program, step)
            return
        stages = [stage for stage in self._stages if has_outputs or not stage.is_head]
        if weights is not None:
            weights.begin([stage.window for stage in stages if stage.window is not None])
        try:
            for stage in stages:
                self.layers_begun += stage.layer is not None
                if pager is not None and stage.layer is not None:
                    pager.layer(stage.layer)
                if weights is not None and stage.window is not None:
                    weights.enter(stage.window)
                self._pool.run(self._program[stage.start : stage.stop], step)
        finally:
            if pager is not None:
                pager.end()
            if weights is not None:
                weights.end()

    def _tiles(self, pieces: Sequence[Piece]) -> NDArray[np.int64]:
        """Cut pieces into attention tiles, longest contexts first: threads then end together."""
        tiles: list[tuple[int, int, int, int]] = []
        first_row = 0
        for piece in pieces:
            table, start = address_of(piece.cache.table), piece.cache.num_positions
            for offset in range(0, len(piece.ids), self._tile_rows):
                rows = min(self._tile_rows, len(piece.ids) - offset)
                tiles.append((first_row + offset, rows, start + offset, table))
            first_row += len(piece.ids)
        tiles.sort(key=lambda tile: -tile[2])
        return np.array(tiles, np.int64).reshape(-1, TILE_WORDS)

    @staticmethod
    def _output_rows(pieces: Sequence[Piece]) -> NDArray[np.int32]:
        rows: list[int] = []
        end = 0
        for piece in pieces:
            end += len(piece.ids)
            rows.extend(range(end - piece.num_logits, end))
        return np.array(rows, np.int32)


def _error(piece: Piece) -> NonFiniteError:
    """Name a piece's positions; kernels may mark earlier ones in it than the first bad one."""
    first = piece.cache.num_positions
    return NonFiniteError(
        f"a value of positions {first} to {first + len(piece.ids) - 1} is not finite"
    )


def _check_settings(**settings: int) -> None:
    """Refuse settings before memory is reserved by them."""
    for name, value in settings.items():
        if value < 1:
            raise ConfigError(f"{name} must be at least 1, not {value}")
    if settings["num_threads"] > MAX_THREADS:
        raise ConfigError(f"num_threads must be at most {MAX_THREADS}")
