"""The conversion as a whole: find out what the source is, read it, write the VQF file.

Errors: a damaged or contradictory source is a ConversionError; a sound one that needs something
that is not implemented is an UnsupportedError; a request that makes no sense is a ConfigError; what
the file system refuses is an OSError. The command line turns them into the exit codes 1 (the source
is bad) and 2 or, for a full disk, 3.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from engine.convert.checkpoint import Checkpoint
from engine.convert.gguf import GgufFile
from engine.convert.gguf_model import read_gguf
from engine.convert.hf_model import Quant, read_folder
from engine.convert.safetensors import SafetensorsFolder
from engine.errors import ConfigError
from engine.vqf.writer import write_vqf

Progress = Callable[[int, int], None]


class Conversion(NamedTuple):
    """What was written."""

    model_digest: bytes
    architecture: str
    num_layers: int
    num_parameters: int
    kinds: dict[str, int]
    """Weights by kind of their tensors."""
    file_bytes: int


def convert(
    source: Path,
    target: Path,
    *,
    quant: Quant = "keep",
    force: bool = False,
    progress: Progress | None = None,
) -> Conversion:
    """Convert a GGUF file or a checkpoint folder to a VQF file.

    Args:
        source: A GGUF file, or a folder with config.json, safetensors and tokenizer.json.
        target: The VQF file; it appears whole or not at all.
        quant: What becomes of the matrices of a folder; a GGUF file is imported as it is.
        force: Replace `target` when it exists.
        progress: Called with the bytes that are done, and all bytes.

    Returns:
        What was written.

    Raises:
        ConversionError: The source is damaged, incomplete or contradicts itself.
        UnsupportedError: The source needs something that is not implemented; the message names it.
        ConfigError: The request makes no sense, or `target` exists and `force` is not given.
        OSError: A file of the source cannot be read.
        WriteError: `target` cannot be written.
    """
    if target.exists() and not force:
        raise ConfigError(f"{target} exists already")
    if target.exists() and target.samefile(source):
        raise ConfigError(f"{target} is the source")
    if source.is_dir():
        with SafetensorsFolder(source) as weights:
            return _write(target, read_folder(source, weights, quant), force, progress)
    if quant != "keep":
        raise ConfigError("a GGUF file is imported as it is; only a folder can be quantised")
    with GgufFile(source) as file:
        return _write(target, read_gguf(file), force, progress)


def _write(
    target: Path, checkpoint: Checkpoint, force: bool, progress: Progress | None
) -> Conversion:
    digest = write_vqf(
        target,
        checkpoint.config,
        checkpoint.text.config,
        checkpoint.plan(),
        checkpoint.extent,
        force=force,
        progress=progress,
    )
    kinds = checkpoint.weights_by_kind()
    return Conversion(
        digest,
        checkpoint.config.architecture,
        checkpoint.config.num_layers,
        sum(kinds.values()),
        kinds,
        target.stat().st_size,
    )
