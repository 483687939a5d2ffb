"""Opening VQF files: strict about every byte, and never from memory that someone else can change.

Steps 1 to 5 of FORMAT.md section 11. A file that is open may be written to, truncated or replaced
by others at any moment: what was read before is in private memory, and what is read later is
compared with the manifest that was accepted when the file was opened.
"""

from __future__ import annotations

import hmac
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from crypto.bulk import PortableBulk
from crypto.errors import InvalidTagError
from crypto.selftest import ensure_self_tested
from engine.errors import FormatError, WeightsError
from engine.vqf.fetch import Seal, read_into
from engine.vqf.file import VqfFile
from engine.vqf.format import (
    HEADER_TAG_OFFSET,
    PREAMBLE_BYTES,
    SEALED_HEAD_BYTES,
    TAG_BYTES,
    Form,
)
from engine.vqf.manifest import Manifest, model_digest
from engine.vqf.parse import parse_manifest
from engine.vqf.preamble import parse_preamble
from engine.vqf.recipients import parse_recipients
from engine.vqf.signatures import parse_signatures
from engine.vqf.suite import derive_keys
from engine.vqf.unlock import Unlock

if TYPE_CHECKING:
    from crypto.bulk import Bulk
    from engine.vqf.preamble import Preamble
    from engine.vqf.recipients import Recipients
    from engine.vqf.signatures import SignedRelease

_NOTHING = Unlock()


class Outline(NamedTuple):
    """What a file tells without keys."""

    preamble: Preamble
    recipients: Recipients
    """Not authenticated; empty in a file that is not sealed."""


def open_vqf(
    path: str | os.PathLike[str], unlock: Unlock = _NOTHING, *, bulk: Bulk | None = None
) -> VqfFile:
    """Open a VQF file of any form.

    Args:
        path: the file.
        unlock: keys or a passphrase for a sealed one.
        bulk: what hashes and decrypts; by default what needs no compiled kernels.

    Raises:
        OSError: the file cannot be opened.
        FormatError: one of R1 to R39, S1 to S6 or E1 to E5 is broken.
        KeyFileError: the file is sealed, and `unlock` has nothing that it is sealed for.
        UnavailableError: a device that holds the key could not be asked.
        WeightsError: V1 to V3: the wrapped key, the header or the manifest does not have its tag.
        WeightsUncheckedError: the file could not be read, or became shorter meanwhile.
        SelfTestError: cryptography of this machine computes wrong results.
    """
    with _Descriptor(path) as opened:
        preamble = opened.preamble()
        if preamble.form is not Form.PLAIN:
            ensure_self_tested()
        used = PortableBulk() if bulk is None else bulk
        if preamble.form is Form.SEALED:
            return _sealed(opened, preamble, unlock, used)
        return _open_form(opened, preamble, used)


def outline(path: str | os.PathLike[str]) -> Outline:
    """Return what a file of any form tells somebody without keys; nothing of it is authenticated.

    Raises:
        OSError: the file cannot be opened.
        FormatError: one of R1 to R12 or E1 to E3 is broken.
        WeightsUncheckedError: the file could not be read.
    """
    with _Descriptor(path) as opened:
        preamble = opened.preamble()
        if preamble.form is not Form.SEALED:
            return Outline(preamble, ())
        area = opened.read(PREAMBLE_BYTES, HEADER_TAG_OFFSET - PREAMBLE_BYTES)
        return Outline(preamble, parse_recipients(area))


class _Descriptor:
    """A file while it is being opened; closed on leaving unless `take` has handed it on."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        # Opening a pipe would wait for its other end; on a regular file the flag means nothing.
        self._number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)

    def __enter__(self) -> _Descriptor:
        return self

    def __exit__(self, *_details: object) -> None:
        if self._number >= 0:
            os.close(self._number)

    def take(self) -> int:
        """Return the descriptor, which is the caller's from now on."""
        number, self._number = self._number, -1
        return number

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes of the file."""
        unverified = bytearray(length)
        read_into(self._number, memoryview(unverified), offset)
        return bytes(unverified)

    def preamble(self) -> Preamble:
        """Return the preamble after R1 to R12."""
        status = os.fstat(self._number)
        if not stat.S_ISREG(status.st_mode):
            raise FormatError("R1", 0, f"{self.path} is not a regular file")
        head = self.read(0, min(PREAMBLE_BYTES, status.st_size))
        return parse_preamble(head, status.st_size)


def _open_form(opened: _Descriptor, preamble: Preamble, bulk: Bulk) -> VqfFile:
    """Apply steps 3 to 5 to a plain or signed file."""
    unverified = opened.read(PREAMBLE_BYTES, preamble.data_offset - PREAMBLE_BYTES)
    encoded = unverified[: preamble.manifest_length]
    if any(unverified[preamble.manifest_length :]):
        offset = PREAMBLE_BYTES + preamble.manifest_length
        raise FormatError("R13", offset, "filling behind the manifest is not zero")
    digest = model_digest(encoded)
    if digest != preamble.identity:
        raise FormatError("R14", 96, "the identity is not the digest of the manifest")
    manifest = _manifest(encoded, PREAMBLE_BYTES, preamble)
    signatures: tuple[SignedRelease, ...] = ()
    if preamble.form is Form.SIGNED:
        start = preamble.data_offset + preamble.data_length
        section = opened.read(start, preamble.signatures_length)
        signatures = parse_signatures(section, start, digest)
    return VqfFile(opened.path, opened.take(), preamble, manifest, digest, signatures, None, bulk)


def _sealed(opened: _Descriptor, preamble: Preamble, unlock: Unlock, bulk: Bulk) -> VqfFile:
    """Apply steps 2, 4 and 5 to a sealed file."""
    head = opened.read(0, SEALED_HEAD_BYTES)
    if parse_preamble(head[:PREAMBLE_BYTES], preamble.file_length) != preamble:
        raise WeightsError(f"{opened.path} changed while it was opened", "V2")
    tagged = head[:HEADER_TAG_OFFSET]
    recipients = parse_recipients(tagged[PREAMBLE_BYTES:])
    try:
        data_key = unlock.data_key(recipients, preamble.identity)
    except InvalidTagError:
        message = f"{opened.path}: the key or passphrase is wrong, or its recipients were altered"
        raise WeightsError(message, "V1") from None
    keys = derive_keys(data_key, preamble.identity)
    if not hmac.compare_digest(keys.header_tag(tagged), head[HEADER_TAG_OFFSET:]):
        raise WeightsError(f"the header of {opened.path} does not have its tag", "V2")
    rest = opened.read(SEALED_HEAD_BYTES, preamble.data_offset - SEALED_HEAD_BYTES)
    length, signed = preamble.manifest_length, preamble.signatures_length
    end = length + signed
    sealed = rest[:end]
    expected = keys.manifest_tag(preamble.counter_start, length, signed, sealed)
    if not hmac.compare_digest(expected, rest[end : end + TAG_BYTES]):
        raise WeightsError(f"the manifest of {opened.path} does not have its tag", "V3")
    plain = keys.crypt_manifest(preamble.counter_start, sealed)
    manifest = _manifest(plain[:length], SEALED_HEAD_BYTES, preamble)
    table_start = end + TAG_BYTES
    num_chunks = sum(extent.num_chunks for extent in manifest.extents)
    if preamble.tag_table_length != TAG_BYTES * num_chunks:
        raise FormatError("E4", 40, f"the tag table is not that of {num_chunks} chunks")
    table_end = table_start + preamble.tag_table_length
    if any(rest[table_end:]):
        offset = SEALED_HEAD_BYTES + table_end
        raise FormatError("E5", offset, "filling behind the tag table is not zero")
    digest = model_digest(plain[:length])
    signatures: tuple[SignedRelease, ...] = ()
    if signed:
        signatures = parse_signatures(plain[length:], SEALED_HEAD_BYTES + length, digest)
    seal = Seal(data_key, keys, recipients, rest[table_start:table_end])
    return VqfFile(opened.path, opened.take(), preamble, manifest, digest, signatures, seal, bulk)


def _manifest(encoded: bytes, offset: int, preamble: Preamble) -> Manifest:
    """Apply R15 to R39."""
    manifest = parse_manifest(encoded, offset)
    if manifest.data_length_bytes != preamble.data_length:
        message = f"the extents end at {manifest.data_length_bytes}, the data area elsewhere"
        raise FormatError("R39", 56, message)
    return manifest
