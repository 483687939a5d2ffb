"""A model of random weights as a VQF file, made a few megabytes at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from engine.config import ModelConfig
from engine.convert.checkpoint import Bytes, Checkpoint, SourceTensor
from engine.convert.convert import Conversion, Progress
from engine.errors import ConfigError
from engine.synth.text import synthetic_text
from engine.synth.weights import RandomMatrix, Stream, random_vector
from engine.vqf.families import required_extents
from engine.vqf.kinds import KINDS
from engine.vqf.writer import write_vqf

MAX_SEED: Final = (1 << 64) - 1

_PARTS: Final = (
    "embedding",
    "final_norm",
    "head",
    "attention_norm",
    "q",
    "k",
    "v",
    "o",
    "q_bias",
    "k_bias",
    "v_bias",
    "q_norm",
    "k_norm",
    "ffn_norm",
    "gate",
    "up",
    "down",
)
"""Numbers of streams: new names are appended, or every file becomes another."""

_LOGIT_DEVIATION: Final = 2.0
"""Small enough that a head which is the embedding does not only say its last token again."""

_NORM_SPREAD: Final = 0.25
_BIAS_SPREAD: Final = 0.2


def synthetic(config: ModelConfig, kind: str, seed: int) -> Checkpoint:
    """Return a model of random weights, none of which is made yet.

    A matrix keeps the size of a normed input, so that states grow as slowly as the square root of
    the number of layers; embedding and head are such that no logit stands alone.

    Args:
        config: its shape.
        kind: the kind of all matrices.
        seed: 0 .. 2^64 - 1.

    Raises:
        ConfigError: unknown kind, a seed out of range, too few tokens, or columns that the kind
            cannot have.
    """
    if not 0 <= seed <= MAX_SEED:
        raise ConfigError(f"the seed must be in 0 .. {MAX_SEED}, not {seed}")
    if kind not in KINDS:
        raise ConfigError(f"there is no kind {kind!a}, only {', '.join(KINDS)}")
    tensors = {
        name: _tensor(config, name, shape, kind, seed)
        for extent in required_extents(config)
        for name, shape in extent.tensors
    }
    return Checkpoint(config, synthetic_text(config.vocab_size), tensors)


def synthesize(
    target: Path,
    config: ModelConfig,
    *,
    kind: str = "Q4_1",
    seed: int = 0,
    force: bool = False,
    progress: Progress | None = None,
) -> Conversion:
    """Write a model of random weights: the same bytes on every machine.

    Args:
        target: the VQF file; it appears whole or not at all.
        config: as of `synthetic`.
        kind: as of `synthetic`.
        seed: as of `synthetic`.
        force: replace `target` when it exists.
        progress: called with the bytes that are done, and all bytes.

    Returns:
        What was written.

    Raises:
        ConfigError: as of `synthetic`.
        WriteError: `target` exists and `force` is not given, or it cannot be written.
    """
    checkpoint = synthetic(config, kind, seed)
    with ThreadPoolExecutor(max_workers=1) as maker:
        digest = write_vqf(
            target,
            config,
            checkpoint.text.config,
            checkpoint.plan(),
            lambda name: _ahead(maker, checkpoint.extent(name)),
            force=force,
            progress=progress,
        )
    kinds = checkpoint.weights_by_kind()
    return Conversion(
        digest,
        config.architecture,
        config.num_layers,
        sum(kinds.values()),
        kinds,
        target.stat().st_size,
    )


def _ahead(
    maker: ThreadPoolExecutor, pieces: Iterator[memoryview | bytes]
) -> Iterator[memoryview | bytes]:
    """Let a thread make the next piece while the last one is hashed and written."""
    pending = maker.submit(next, pieces, None)
    while (piece := pending.result()) is not None:
        pending = maker.submit(next, pieces, None)
        yield piece


def _tensor(
    config: ModelConfig, name: str, shape: tuple[int, ...], kind: str, seed: int
) -> SourceTensor:
    """Return one tensor; a part of a layer has the stream of its layer and its name."""
    _, _, part = name.rpartition(".")
    layer = 1 + int(name.split(".")[1]) if part != name else 0
    stream = Stream(seed, layer << 32 | _PARTS.index(part))
    if len(shape) == 1:
        centre, spread = (0.0, _BIAS_SPREAD) if part.endswith("bias") else (1.0, _NORM_SPREAD)
        return SourceTensor("F32", shape, lambda: _one(shape[0], stream, centre, spread))
    rows, columns = shape
    deviation = 1 / math.sqrt(columns)
    if part == "embedding" and not config.tied_embeddings:
        deviation = 1.0
    elif part in ("embedding", "head"):
        deviation *= _LOGIT_DEVIATION
    try:
        matrix = RandomMatrix(kind, (rows, columns), stream, deviation)
    except ValueError as error:
        raise ConfigError(f"tensor {name}: {error}") from None
    return SourceTensor(kind, shape, matrix.pieces)


def _one(length: int, stream: Stream, centre: float, spread: float) -> Iterator[Bytes]:
    yield random_vector(length, stream, centre, spread)
