"""Segments that hold together by their digests and are wrong all the same."""

from __future__ import annotations

import pytest

from appliance.log.errors import LogDamageError
from appliance.log.growth import Growth
from appliance.log.layout import (
    ADMISSION,
    CHECKPOINT,
    CLOSING,
    ENTRY,
    SegmentHeader,
    decode_header,
    encode_record,
)
from appliance.log.objects import sign_head
from appliance.log.scan import scan_segment
from crypto.errors import FormatError
from tests.appliance.log.case import SIGNER, START_MS

HEADER = SegmentHeader(b"i" * 32, 0, 0, bytes(32))


def head(size, **changes):
    """Return the checkpoint over so many entries of the texts below."""
    growth = Growth(0, [], [])
    for number in range(size):
        growth.append(ENTRY, 0, text(number), 0)
    said = {
        "log_id": HEADER.log_id, "size": size, "root": growth.root(), "time_ms": START_MS,
        "previous": bytes(32),
    }  # fmt: skip
    return sign_head(SIGNER, "tests", **(said | changes)).checkpoint


def text(number):
    return b"entry %d" % number


def scan(folder, records):
    """Scan a segment of these records: kind, index, body, what it refers to."""
    data = HEADER.encode()
    for record in records:
        data += encode_record(data[-32:], *record)
    path = folder / "segment"
    path.write_bytes(data)
    return scan_segment(path, HEADER, Growth(0, [], []), None)


def test_a_segment_is_read_to_its_last_checkpoint(tmp_path):
    entries = [(ENTRY, n, text(n)) for n in range(3)]
    found = scan(tmp_path, [*entries, (CHECKPOINT, 3, head(3)), (ENTRY, 3, text(3))])
    assert (found.growth.size, found.cut > 0) == (3, True)
    assert (found.head.size, found.head.root) == (3, found.growth.root())


@pytest.mark.parametrize(
    ("records", "index"),
    [
        ([(ENTRY, 1, text(0))], 0),
        ([(ENTRY, 0, text(0)), (ENTRY, 0, text(0))], 1),
        ([(ENTRY, 0, text(0)), (ENTRY, 2, text(2))], 1),
        ([(ENTRY, 0, text(0)), (CHECKPOINT, 2, head(1))], 1),
        ([(ENTRY, n, text(n)) for n in range(65)], 64),
        ([(ENTRY, 0, text(0)), (CHECKPOINT, 1, head(1, root=b"r" * 32))], 0),
        ([(ENTRY, 0, text(0)), (CHECKPOINT, 1, head(1, log_id=b"x" * 32))], 0),
        ([(ENTRY, 0, text(0)), (CHECKPOINT, 1, head(2))], 0),
        ([(ENTRY, 0, text(0)), (CHECKPOINT, 1, b"no object")], 0),
        ([(CLOSING, 0, text(0), 0), (CHECKPOINT, 1, head(1))], 0),
        (
            [
                (ADMISSION, 0, text(0)),
                (CLOSING, 1, text(1), 0),
                (CLOSING, 2, text(2), 0),
                (CHECKPOINT, 3, head(3)),
            ],
            2,
        ),
    ],
    ids=[
        "first", "twice", "hole", "checkpoint", "batch", "root", "log", "size", "object", "closing",
        "closed twice",
    ],
)  # fmt: skip
def test_what_a_writer_would_not_write_is_refused(tmp_path, records, index):
    with pytest.raises(LogDamageError) as caught:
        scan(tmp_path, records)
    assert (caught.value.reason, caught.value.index) == ("corrupted", index)


def test_a_header_has_one_encoding():
    data = HEADER.encode()
    assert decode_header(data) == HEADER
    for offset in range(len(data)):
        wrong = bytearray(data)
        wrong[offset] ^= 1
        with pytest.raises(FormatError) as caught:
            decode_header(bytes(wrong))
        assert caught.value.rule == "log-header"
    for wrong in (b"", data[:-1], data + b"\0"):
        with pytest.raises(FormatError):
            decode_header(wrong)
