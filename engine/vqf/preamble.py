"""The first 128 bytes of a VQF file (FORMAT.md section 3, rules R1 to R12)."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from engine.errors import FormatError
from engine.vqf.format import (
    CHUNK_BYTES,
    COUNTER_BYTES,
    DIGEST_BYTES,
    MAGIC,
    MAX_EXTENTS,
    MAX_MANIFEST_BYTES,
    MAX_SIGNATURES_BYTES,
    PAGE_BYTES,
    PREAMBLE_BYTES,
    SEALED_OVERHEAD_BYTES,
    TAG_BYTES,
    VERSION,
    Form,
    up,
)

_LAYOUT: Final = struct.Struct("<8sIII4sQQQQQQ8s16s32s")
_OFFSETS: Final = {
    "magic": 0,
    "version": 8,
    "form": 12,
    "suite": 16,
    "reserved_20": 20,
    "file_length": 24,
    "manifest_length": 32,
    "tag_table_length": 40,
    "data_offset": 48,
    "data_length": 56,
    "signatures_length": 64,
    "reserved_72": 72,
    "counter_start": 80,
    "identity": 96,
}

_SUITE: Final = {Form.PLAIN: 0, Form.SIGNED: 0, Form.SEALED: 1}
_SIGNATURES_RANGE: Final = {
    Form.PLAIN: (0, 0),
    Form.SIGNED: (1, MAX_SIGNATURES_BYTES),
    Form.SEALED: (0, MAX_SIGNATURES_BYTES),
}


class Preamble(NamedTuple):
    """The fields of the preamble, in file order without the magic and the reserved bytes."""

    version: int
    form: Form
    suite: int
    file_length: int
    manifest_length: int
    tag_table_length: int
    data_offset: int
    data_length: int
    signatures_length: int
    counter_start: bytes
    identity: bytes

    def encode(self) -> bytes:
        """Return the 128 bytes."""
        return _LAYOUT.pack(
            MAGIC,
            self.version,
            self.form,
            self.suite,
            bytes(4),
            self.file_length,
            self.manifest_length,
            self.tag_table_length,
            self.data_offset,
            self.data_length,
            self.signatures_length,
            bytes(8),
            self.counter_start,
            self.identity,
        )


def plain_preamble(manifest_length: int, data_length: int, model_digest: bytes) -> Preamble:
    """Return the preamble of a plain file.

    Raises:
        ValueError: `model_digest` has not 32 bytes.
    """
    return _preamble(Form.PLAIN, manifest_length, 0, 0, data_length, bytes(16), model_digest)


def signed_preamble(
    manifest_length: int, signatures_length: int, data_length: int, model_digest: bytes
) -> Preamble:
    """Return the preamble of a signed file.

    Raises:
        ValueError: `model_digest` has not 32 bytes.
    """
    return _preamble(
        Form.SIGNED, manifest_length, signatures_length, 0, data_length, bytes(16), model_digest
    )


def sealed_preamble(
    manifest_length: int,
    signatures_length: int,
    num_chunks: int,
    data_length: int,
    counter_start: bytes,
    file_id: bytes,
) -> Preamble:
    """Return the preamble of a sealed file.

    Raises:
        ValueError: `file_id` has not 32 bytes or `counter_start` not 16.
    """
    tags_length = TAG_BYTES * num_chunks
    return _preamble(
        Form.SEALED,
        manifest_length,
        signatures_length,
        tags_length,
        data_length,
        counter_start,
        file_id,
    )


def _preamble(
    form: Form,
    manifest_length: int,
    signatures_length: int,
    tags_length: int,
    data_length: int,
    counter_start: bytes,
    identity: bytes,
) -> Preamble:
    """Return a preamble whose remaining fields follow from these."""
    if len(identity) != DIGEST_BYTES or len(counter_start) != COUNTER_BYTES:
        lengths = f"{len(identity)} and {len(counter_start)}"
        raise ValueError(f"identity and counter have {DIGEST_BYTES} and 16 bytes, not {lengths}")
    head_length, tail_length = PREAMBLE_BYTES + manifest_length, signatures_length
    if form is Form.SEALED:
        head_length += SEALED_OVERHEAD_BYTES + signatures_length + tags_length
        tail_length = 0
    data_offset = up(head_length, PAGE_BYTES)
    return Preamble(
        version=VERSION,
        form=form,
        suite=_SUITE[form],
        file_length=data_offset + data_length + tail_length,
        manifest_length=manifest_length,
        tag_table_length=tags_length,
        data_offset=data_offset,
        data_length=data_length,
        signatures_length=signatures_length,
        counter_start=counter_start,
        identity=identity,
    )


def parse_preamble(unverified_bytes: bytes, file_length: int) -> Preamble:
    """Return the preamble of a file of any form.

    Args:
        unverified_bytes: the first 128 bytes of the file, or all of it if it is shorter.
        file_length: the file's real length in bytes.

    Raises:
        FormatError: one of R1 to R12 is broken.

    Security: every length in the result has been compared with `file_length`; whether it is the
    one that follows from the manifest is checked when the manifest is known (R14, R39).
    """
    if len(unverified_bytes) < PREAMBLE_BYTES:
        raise FormatError("R1", 0, f"{len(unverified_bytes)} bytes are too few for a VQF file")
    fields = dict(zip(_OFFSETS, _LAYOUT.unpack(unverified_bytes), strict=True))
    if fields["magic"] != MAGIC:
        _fail("R2", "magic", "this is not a VQF file")
    if fields["version"] != VERSION:
        _fail("R3", "version", f"version {fields['version']} is not known, only {VERSION}")
    if fields["form"] not in tuple(Form):
        _fail("R4", "form", f"form {fields['form']} does not exist")
    fields["form"] = form = Form(fields["form"])
    if fields["suite"] != _SUITE[form]:
        _fail("R5", "suite", f"suite {fields['suite']} does not exist in this form")
    reserved = ["reserved_20", "reserved_72"]
    if form is not Form.SEALED:
        reserved.append("counter_start")
    for name in reserved:
        if any(fields[name]):
            _fail("R6", name, "reserved bytes are not zero")
    preamble = Preamble(**{name: fields[name] for name in Preamble._fields})
    _check_lengths(preamble, file_length)
    return preamble


def _check_lengths(preamble: Preamble, file_length: int) -> None:
    """Apply R7 to R12."""
    form = preamble.form
    if preamble.file_length != file_length:
        message = f"the file has {file_length} bytes and says {preamble.file_length}"
        _fail("R7", "file_length", message)
    if not 1 <= preamble.manifest_length <= MAX_MANIFEST_BYTES:
        _fail("R8", "manifest_length", f"no manifest has {preamble.manifest_length} bytes")
    tags = preamble.tag_table_length
    if (tags == 0 or tags % TAG_BYTES) if form is Form.SEALED else tags:
        _fail("R9", "tag_table_length", f"no tag table of this form has {tags} bytes")
    least, most = _SIGNATURES_RANGE[form]
    if not least <= preamble.signatures_length <= most:
        message = f"no signatures of this form have {preamble.signatures_length} bytes"
        _fail("R10", "signatures_length", message)
    before_data = PREAMBLE_BYTES + preamble.manifest_length
    after_data = preamble.signatures_length
    if form is Form.SEALED:
        before_data += SEALED_OVERHEAD_BYTES + preamble.signatures_length + tags
        after_data = 0
    if preamble.data_offset != up(before_data, PAGE_BYTES):
        _fail("R11", "data_offset", f"data cannot begin at {preamble.data_offset}")
    length = preamble.data_length
    if (
        not length
        or length % PAGE_BYTES
        or preamble.data_offset + length + after_data != file_length
    ):
        _fail("R12", "data_length", f"{length} bytes of data do not fit the file's length")
    if tags > TAG_BYTES * (length // CHUNK_BYTES + MAX_EXTENTS):
        _fail("R12", "tag_table_length", f"{length} bytes of data have fewer tags than {tags}")


def _fail(rule: str, field: str, message: str) -> None:
    """Raise for the preamble field at its offset."""
    raise FormatError(rule, _OFFSETS[field], message)
