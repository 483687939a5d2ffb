"""Writing a plain VQF file, extent by extent.

The plan says what comes and how long it is, so the manifest's length and every offset are known
before the first tensor; its roots are filled in at the end. Memory holds one buffer of the source
and 32 bytes for every MiB of the extent that is being written. One input gives one sequence of
bytes.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from crypto.atomic import AtomicFile
from engine.errors import ConversionError, FormatError
from engine.vqf.chunks import ChunkHasher
from engine.vqf.format import CHUNK_BYTES, PREAMBLE_BYTES
from engine.vqf.manifest import Extent, laid_out, model_digest
from engine.vqf.parse import parse_manifest
from engine.vqf.preamble import plain_preamble

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

    from _typeshed import ReadableBuffer

    from engine.config import ModelConfig, TokenizerConfig
    from engine.vqf.manifest import ExtentPlan, Manifest

    Source: TypeAlias = Callable[[str], Iterator[ReadableBuffer]]
    Progress: TypeAlias = Callable[[int, int], None]


def write_vqf(
    path: str | os.PathLike[str],
    config: ModelConfig,
    tokenizer_config: TokenizerConfig,
    plan: Sequence[ExtentPlan],
    source: Source,
    *,
    force: bool = False,
    progress: Progress | None = None,
) -> bytes:
    """Write a plain file and return its model_digest (32 bytes).

    Args:
        path: the file to make.
        config: the model's shape and constants.
        tokenizer_config: special ids.
        plan: the extents in file order, each tensor with name, kind and shape, as FORMAT.md section
            4 wants them.
        source: called once for each extent with its name, in file order; yields the
            tensors in the order of the plan, in panel layout (`engine.vqf.panels.pack`), or the
            bytes of an extent without tensors; each in one contiguous buffer or in several, of
            which none reaches beyond its tensor. A buffer is not used after the next one is asked
            for.
        force: replace a regular file that is there.
        progress: called with the bytes of the data area that are done, and all of them.

    Raises:
        ConversionError: the plan is no valid file, or a buffer has another length than planned.
        WriteError: the target exists, or the file system refused. Nothing is left behind, whatever
            happens; what `source` and `progress` raise passes through.
    """
    target = Path(path)
    manifest = _planned(config, tokenizer_config, plan)
    total_bytes = manifest.data_length_bytes
    preamble = plain_preamble(len(manifest.encode()), total_bytes, bytes(32))
    with AtomicFile(target, force=force) as file:
        file.create()
        file.reserve(preamble.file_length)
        extents = [
            _write_extent(
                file, preamble.data_offset, extent, source(extent.name), progress, total_bytes
            )
            for extent in manifest.extents
        ]
        encoded = replace(manifest, extents=tuple(extents)).encode()
        digest = model_digest(encoded)
        preamble = plain_preamble(len(encoded), total_bytes, digest)
        head = preamble.encode() + encoded
        file.write_at(0, head + bytes(preamble.data_offset - len(head)))
        file.commit()
    return digest


def _planned(
    config: ModelConfig, tokenizer: TokenizerConfig, plan: Sequence[ExtentPlan]
) -> Manifest:
    """Return the manifest without roots, after the rules of the reader have passed it."""
    try:
        planned = laid_out(config, tokenizer, plan)
        return parse_manifest(planned.encode(), PREAMBLE_BYTES)
    except (FormatError, ValueError, TypeError) as error:
        raise ConversionError(f"this cannot become a VQF file: {error}") from error


def _write_extent(
    file: AtomicFile,
    data_offset: int,
    extent: Extent,
    buffers: Iterator[ReadableBuffer],
    progress: Progress | None,
    total_bytes: int,
) -> Extent:
    """Write one extent with its filling and return it with its root."""
    hasher = ChunkHasher()
    position = 0

    def put(data: ReadableBuffer) -> None:
        nonlocal position
        view = memoryview(data).cast("B")
        for start in range(0, len(view), CHUNK_BYTES):
            piece = view[start : start + CHUNK_BYTES]
            file.write_at(data_offset + extent.offset_bytes + position, piece)
            hasher.update(piece)
            position += len(piece)
            if progress is not None:
                progress(extent.offset_bytes + position, total_bytes)

    parts = [(tensor.name, tensor.offset_bytes, tensor.length_bytes) for tensor in extent.tensors]
    for name, offset, length in parts or [(extent.name, 0, extent.length_bytes)]:
        put(bytes(offset - position))
        end = offset + length
        while position < end:
            data = next(buffers, None)
            if data is None:
                raise ConversionError(f"{name} is missing {end - position} of {length} bytes")
            size = position - offset + memoryview(data).nbytes
            if size > length:
                raise ConversionError(f"{name} has {size} bytes and was planned with {length}")
            put(data)
            del data  # before the source makes the next one
    put(bytes(extent.size_bytes - position))
    if next(buffers, None) is not None:
        raise ConversionError(f"the source of extent {extent.name} has more than was planned")
    return replace(extent, root=hasher.root())
