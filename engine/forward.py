"""One step of the engine: the forward pass over pieces of several sequences at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engine.errors import ConfigError, NonFiniteError
from engine.kernels import program as layout
from engine.kernels.attention_tile import MAX_QUERIES, TILE_WORDS
from engine.kernels.pool import Pool
from engine.kv.cache import BlockPool, SequenceCache
from engine.memory.buffers import address_of
from engine.memory.weights import Weights
from engine.models import write_forward
from engine.models.graph import Graph

DEFAULT_MAX_ROWS: Final = 512


@dataclass(slots=True)
class Piece:
    """Consecutive positions of one sequence in a step: prefill chunks have many ids, decode steps one.

    `num_logits` asks for the logits of that many last positions.
    """

    cache: SequenceCache
    ids: NDArray[np.int32]
    num_logits: int = 0


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step gave, piece by piece.

    logits: float32[sum of num_logits, vocab], a view that the next step overwrites.
    residuals: float32[layers + 1, rows, hidden] x(t, l) of every row, if the trace was asked for.
    errors: for each piece None, or why its sequence must end (NUMERICS N12).
    """

    logits: NDArray[np.float32]
    residuals: NDArray[np.float32] | None
    errors: tuple[NonFiniteError | None, ...]


class Engine:
    """A model ready to run on a pool of threads."""

    def __init__(
        self,
        weights: Weights,
        *,
        num_threads: int,
        max_rows: int = DEFAULT_MAX_ROWS,
        max_outputs: int = 64,
        max_positions: int | None = None,
        max_blocks: int | None = None,
        single_cache: bool = False,
    ) -> None:
        """Write the model's program and start the threads.

        Args:
            weights: the model; kept alive by this object.
            num_threads: 1 to 256.
            max_rows: most positions in one step.
            max_outputs: most positions whose logits one step can give.
            max_positions: longest sequence, by default the model's context.
            max_blocks: most cache blocks of 64 positions, by default as many as one longest sequence needs, four times.
            single_cache: keep keys and values as f32: profile `wh1-float` (NUMERICS N13), with weights as floats.
        """
        self.config = weights.config
        self._weights = weights
        self.max_rows, self.max_outputs = max_rows, max_outputs
        context = self.config.context_length_tokens
        self.max_positions = min(max_positions or context, context)
        longest = -(-self.max_positions // 64)
        self.blocks = BlockPool(self.config, max_blocks=max_blocks or 4 * longest, number_bytes=4 if single_cache else 2)
        graph = Graph(
            weights,
            layer_bytes=self.blocks.layer_bytes,
            single_cache=single_cache,
            num_threads=num_threads,
            max_rows=max_rows,
            max_outputs=max_outputs,
            max_positions=self.max_positions,
        )
        write_forward(graph)
        self._graph = graph
        self._program = graph.program.to_array()
        self._pool = Pool(num_threads)
        shared = self.config.num_heads // self.config.num_kv_heads
        self._tile_rows = max(1, MAX_QUERIES // shared)
        self._step = np.zeros(layout.STEP_WORDS, np.int64)

    @property
    def num_threads(self) -> int:
        """Threads that compute."""
        return self._pool.num_threads

    def new_cache(self, max_positions: int | None = None) -> SequenceCache:
        """Return an empty cache for one sequence."""
        return SequenceCache(self.blocks, max_positions or self.max_positions)

    def close(self) -> None:
        """End the threads."""
        self._pool.close()

    def step(self, pieces: Sequence[Piece], *, trace: bool = False) -> StepResult:
        """Run all pieces through the model in one pass over the weights.

        Raises:
            ConfigError: no rows or too many, too many logits, an id outside the vocabulary, a full cache.
        """
        ids = np.concatenate([p.ids for p in pieces]).astype(np.int32) if pieces else np.zeros(0, np.int32)
        rows = len(ids)
        num_logits = sum(p.num_logits for p in pieces)
        if not 0 < rows <= self.max_rows or any(not len(p.ids) for p in pieces):
            raise ConfigError(f"a step takes 1 to {self.max_rows} positions, not {rows}")
        if num_logits > self.max_outputs or any(p.num_logits > len(p.ids) for p in pieces):
            raise ConfigError(f"a step gives the logits of at most {self.max_outputs} of its positions")
        if int(ids.min()) < 0 or int(ids.max()) >= self.config.vocab_size:
            raise ConfigError("a token id is outside the vocabulary")
        for piece in pieces:
            piece.cache.reserve(len(piece.ids))
        residuals = None
        if trace:
            shape = (self.config.num_layers + 1, rows, self.config.hidden_size)
            residuals = np.empty(shape, np.float32)
        errors = self._run(pieces, ids, residuals)
        found = []
        start = 0
        for piece in pieces:
            bad = np.flatnonzero(errors[start : start + len(piece.ids)])
            position = piece.cache.num_positions
            found.append(
                NonFiniteError(f"a value at position {position + int(bad[0])} is not finite")
                if len(bad)
                else None
            )
            piece.cache.advance(len(piece.ids))
            start += len(piece.ids)
        return StepResult(self._graph.logits[:num_logits], residuals, tuple(found))

    def _run(
        self,
        pieces: Sequence[Piece],
        ids: NDArray[np.int32],
        residuals: NDArray[np.float32] | None,
    ) -> NDArray[np.int32]:
        positions = np.concatenate(
            [np.arange(p.cache.num_positions, p.cache.num_positions + len(p.ids)) for p in pieces]
        ).astype(np.int32)
        tables = np.repeat(
            np.array([address_of(p.cache.table) for p in pieces], np.int64), [len(p.ids) for p in pieces]
        )
        tiles = self._tiles(pieces)
        outputs = self._output_rows(pieces)
        errors = np.zeros(len(ids), np.int32)
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
        step[layout.STEP_TRACE] = 0 if residuals is None else address_of(residuals)
        self._pool.run(self._program, step)
        return errors

    def _tiles(self, pieces: Sequence[Piece]) -> NDArray[np.int64]:
        """Cut pieces into attention tiles, the longest contexts first so that threads finish together."""
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
