"""`PortableBulk` does what its libraries do; the arguments that it refuses."""

from __future__ import annotations

import hashlib
import hmac

import numpy as np
import pytest

from crypto.bulk import PortableBulk
from crypto.sm4 import ctr

KEY = bytes(range(16))
BULK = PortableBulk()


@pytest.mark.parametrize("length", [0, 1, 63, 64, 5000])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_it_does_what_the_libraries_do(length: int, count: int) -> None:
    data = [bytes([n]) * length for n in range(count)]
    prefixes = [b"%d" % n for n in range(count)]
    expected = [hashlib.new("sm3", b"p" + part).digest() for part in data]
    assert BULK.sm3_many(b"p", data) == expected
    assert BULK.sm3_rows(b"p", b"".join(data), count) == b"".join(expected)
    tags = [hmac.digest(KEY, p + part, "sm3") for p, part in zip(prefixes, data, strict=True)]
    assert BULK.hmac_sm3_many(KEY, prefixes, data) == tags
    blocks = [2**128 - 1 - n for n in range(count)]
    buffers = [bytearray(part) for part in data]
    BULK.sm4_ctr_many(KEY, blocks, buffers)
    assert buffers == [ctr(KEY, block, part) for block, part in zip(blocks, data, strict=True)]
    assert BULK.sm4_ctr_sm3_many(KEY, blocks, b"p", buffers) == expected
    assert buffers == data


def test_buffers_of_any_type() -> None:
    array = np.arange(200, dtype="<u4").reshape(10, 20)
    raw = array.tobytes()
    expected = [hashlib.new("sm3", raw).digest()] * 4
    assert BULK.sm3_many(b"", [raw, bytearray(raw), memoryview(raw), array.data]) == expected
    rows = [hashlib.new("sm3", raw[i : i + 80]).digest() for i in range(0, 800, 80)]
    assert BULK.sm3_rows(b"", array.data, 10) == b"".join(rows)
    BULK.sm4_ctr_many(KEY, [0], [array.data])
    assert array.tobytes() == ctr(KEY, 0, raw)
