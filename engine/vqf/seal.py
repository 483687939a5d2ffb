"""Making a sealed file, in memory that does not grow with the data."""

from __future__ import annotations

import secrets
import threading
from typing import TYPE_CHECKING

from crypto.atomic import AtomicFile
from crypto.merkle import root
from engine.errors import WeightsError
from engine.vqf.batches import batches, run_batches
from engine.vqf.chunks import Chunk, all_chunks
from engine.vqf.format import CHUNK_BYTES, FILE_ID_BYTES, TAG_BYTES
from engine.vqf.head import sealed_head
from engine.vqf.manifest import model_digest
from engine.vqf.signatures import encode_signatures
from engine.vqf.suite import DATA_KEY_BYTES, derive_keys, initial_block
from engine.vqf.verify import verify_all

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from engine.vqf.file import VqfFile
    from engine.vqf.manifest import Manifest
    from engine.vqf.wrap import SealFor


def seal_vqf(
    file: VqfFile,
    target: Path,
    recipients: SealFor,
    *,
    force: bool = False,
    num_threads: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write a sealed copy of an open file of any form, under a data key of its own.

    Signatures go along, encrypted. Every byte of the source is verified first, as a load would, and
    again what is sealed: the file may change meanwhile. The memory used is that of `verify_all`.

    Args:
        file: what to seal; it stays open.
        target: the file to make; it may be the source's own name if `force` is set.
        recipients: who can open it.
        force: replace a regular file that is there.
        num_threads: how many threads share the work.
        progress: called with (bytes done, bytes in all), the data area counted twice.

    Raises:
        WeightsError, WeightsUncheckedError, FormatError: the source does not verify; as
            `verify_all`.
        WriteError: the target exists, or the file system refused. Nothing is left behind.
        ConfigError, KeyFileError: as `SealFor.wrap`.
    """
    data_length = file.preamble.data_length

    def report(offset: int) -> Callable[[int, int], None] | None:
        if progress is None:
            return None
        return lambda part, _of: progress(offset + part, 2 * data_length)

    data_key, file_id = secrets.token_bytes(DATA_KEY_BYTES), secrets.token_bytes(FILE_ID_BYTES)
    wrapped = recipients.wrap(data_key, file_id)
    keys = derive_keys(data_key, file_id)
    manifest = file.manifest.encode()
    if model_digest(manifest) != file.model_digest:
        raise WeightsError(f"the manifest of {file.path} does not have its digest", "V6")
    signatures = encode_signatures(s.encoded for s in file.signatures) if file.signatures else b""
    chunks = list(all_chunks(file.manifest.extents))
    source, bulk = file.source(), file.bulk
    tags = bytearray(TAG_BYTES * len(chunks))
    digests: dict[int, bytes] = {}
    scratch = threading.local()
    preamble, _ = sealed_head(keys, wrapped, manifest, signatures, bytes(tags), data_length)

    with AtomicFile(target, force=force) as out:
        out.create()  # what cannot be written is known before the long work
        out.reserve(preamble.file_length)
        verify_all(file, num_threads=num_threads, progress=report(0))

        def seal(batch: tuple[Chunk, ...]) -> None:
            if not hasattr(scratch, "memory"):
                scratch.memory = memoryview(bytearray(bulk.lanes * CHUNK_BYTES))
            length = batch[0].length
            buffers = [scratch.memory[i * length : (i + 1) * length] for i in range(len(batch))]
            leaf_hashes = source.fetch(batch, buffers, bulk)
            bulk.sm4_ctr_many(keys.data_cipher, [initial_block(c) for c in batch], buffers)
            prefixes = [keys.chunk_prefix(chunk) for chunk in batch]
            chunk_tags = bulk.hmac_sm3_many(keys.tags, prefixes, buffers)
            for chunk, buffer, leaf, tag in zip(
                batch, buffers, leaf_hashes, chunk_tags, strict=True
            ):
                out.write_at(preamble.data_offset + chunk.offset, buffer)
                digests[chunk.number] = leaf
                tags[TAG_BYTES * chunk.number : TAG_BYTES * (chunk.number + 1)] = tag

        run_batches(seal, batches(chunks, bulk.lanes), num_threads, report(data_length))
        _check_roots(file.manifest, chunks, digests)
        _, head = sealed_head(keys, wrapped, manifest, signatures, bytes(tags), data_length)
        out.write_at(0, head)
        out.commit()


def _check_roots(manifest: Manifest, chunks: list[Chunk], digests: Mapping[int, bytes]) -> None:
    """Compare what was sealed with the manifest."""
    leaf_hashes: list[list[bytes]] = [[] for _ in manifest.extents]
    for chunk in chunks:
        leaf_hashes[chunk.extent].append(digests[chunk.number])
    for extent, leaves in zip(manifest.extents, leaf_hashes, strict=True):
        if root(leaves) != extent.root:
            raise WeightsError(f"extent {extent.name} does not have its digest", "V6")
