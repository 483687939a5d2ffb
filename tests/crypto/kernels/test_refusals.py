"""Every `Bulk` refuses the same arguments, and changes nothing when it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crypto.bulk import PortableBulk
from crypto.kernels.load import load_bulk

if TYPE_CHECKING:
    from crypto.bulk import Bulk

KEY = bytes(16)


@pytest.fixture(params=["portable", "loaded"])
def bulk(request: pytest.FixtureRequest) -> Bulk:
    return PortableBulk() if request.param == "portable" else load_bulk()


def test_lengths_must_agree(bulk: Bulk) -> None:
    two = [bytearray(16), bytearray(17)]
    with pytest.raises(ValueError, match="one length"):
        bulk.sm3_many(b"", two)
    with pytest.raises(ValueError, match="one length"):
        bulk.hmac_sm3_many(KEY, [b"", b""], two)
    with pytest.raises(ValueError, match="one length"):
        bulk.sm4_ctr_many(KEY, [0, 0], two)
    with pytest.raises(ValueError, match="one length"):
        bulk.sm4_ctr_sm3_many(KEY, [0, 0], b"", two)
    assert two == [bytes(16), bytes(17)]


@pytest.mark.parametrize(
    ("prefixes", "words"),
    [
        ([b"a"], "needs a prefix"),
        ([b"a", b"bc"], "one length"),
        ([bytes(257)] * 2, "at most 256 bytes, not 257"),
    ],
)
def test_prefixes_of_tags(bulk: Bulk, prefixes: list[bytes], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        bulk.hmac_sm3_many(KEY, prefixes, [b"", b""])


@pytest.mark.parametrize(
    ("key", "blocks", "words"),
    [
        (KEY[:-1], [0], "16 bytes, not 15"),
        (KEY + b"\0", [0], "16 bytes, not 17"),
        (KEY, [-1], "128 bits"),
        (KEY, [1 << 128], "128 bits"),
        (KEY, [], "needs an initial block"),
        (KEY, [0, 0], "needs an initial block"),
    ],
)
def test_keys_and_counters(bulk: Bulk, key: bytes, blocks: list[int], words: str) -> None:
    buffer = bytearray(32)
    with pytest.raises(ValueError, match=words):
        bulk.sm4_ctr_many(key, blocks, [buffer])
    with pytest.raises(ValueError, match=words):
        bulk.sm4_ctr_sm3_many(key, blocks, b"", [buffer])
    assert buffer == bytes(32)


def test_what_is_read_only_is_not_decrypted(bulk: Bulk) -> None:
    data = bytes(5000)
    with pytest.raises(ValueError, match="read-only"):
        bulk.sm4_ctr_many(KEY, [0], [memoryview(data)])
    assert data == bytes(5000)


@pytest.mark.parametrize(("size", "rows"), [(10, 3), (1, 0), (4, -1), (4, 8)])
def test_rows_must_divide_the_buffer(bulk: Bulk, size: int, rows: int) -> None:
    with pytest.raises(ValueError, match=f"{size} bytes are not {rows} rows"):
        bulk.sm3_rows(b"", bytes(size), rows)
