"""Adding signatures to a file: `model_digest` and data stay as they are (FORMAT.md section 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crypto.atomic import AtomicFile
from crypto.cose import sign1
from crypto.release import RELEASE_TYPE
from engine.vqf.exclusive import exclusively
from engine.vqf.format import Form
from engine.vqf.head import sealed_head
from engine.vqf.preamble import signed_preamble
from engine.vqf.signatures import encode_signatures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crypto.release import Release
    from crypto.signer import Signer
    from engine.vqf.fetch import Seal
    from engine.vqf.file import VqfFile


def sign_vqf(file: VqfFile, signers: Sequence[Signer], release: Release) -> None:
    """Replace an open file by one that these signers vouch for; a plain file becomes a signed one.

    Signatures that are there already are kept, but for those of another release of the same line:
    a file is one release of a line. A signer who has signed this very release is not asked again.

    Args:
        file: the file; every byte of it has been verified (`verify_all`). It stays open on what it
            was.
        signers: who signs.
        release: what they sign.

    Raises:
        ValueError: the release is for another model, or there would be too many signatures.
        CryptoError: as the signers raise it.
        WriteError: the file system refused, or the file was replaced since it was opened; the old
            one is whole.
    """
    if release.model_digest != file.model_digest:
        raise ValueError("the release is for another model")
    kept = [s for s in file.signatures if s.release == release or s.release.line != release.line]
    present = {s.sign1.key_id for s in kept if s.release == release}
    payload = release.encode()
    added = {
        signer.key_id: sign1(payload, typ=RELEASE_TYPE, signer=signer)
        for signer in signers
        if signer.key_id not in present
    }
    section = encode_signatures([*(s.encoded for s in kept), *added.values()])
    with exclusively(file), AtomicFile(file.path, force=True) as out:
        out.create()
        if file.form is Form.SEALED and file.seal is not None:
            _write_sealed(file, file.seal, section, out)
        else:
            _write_signed(file, section, out)
        out.commit()


def _write_signed(file: VqfFile, section: bytes, out: AtomicFile) -> None:
    """Write the signed form: the same bytes with another preamble and a tail."""
    old = file.preamble
    preamble = signed_preamble(
        old.manifest_length, len(section), old.data_length, file.model_digest
    )
    end = old.data_offset + old.data_length
    out.copy_range(file.descriptor, 0, 0, end)
    out.write_at(0, preamble.encode())
    out.write_at(end, section)


def _write_sealed(file: VqfFile, seal: Seal, section: bytes, out: AtomicFile) -> None:
    """Write the sealed form: another head before the same cipher text."""
    old = file.preamble
    preamble, head = sealed_head(
        seal.keys, seal.recipients, file.manifest.encode(), section, seal.tags, old.data_length
    )
    out.write_at(0, head)
    out.copy_range(file.descriptor, old.data_offset, preamble.data_offset, old.data_length)
