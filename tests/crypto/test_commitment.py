from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crypto.commitment import (
    NAMES,
    commitment,
    ids_bytes,
    new_salt,
    request_bytes,
    seed_of_nonce,
)


def test_vectors(load_vectors):
    vectors = load_vectors("evidence.json")
    assert {vector["name"] for vector in vectors["commitments"]} == set(NAMES)
    for vector in vectors["commitments"]:
        salt, data = bytes.fromhex(vector["salt"]), bytes.fromhex(vector["data"])
        assert commitment(vector["name"], salt, data).hex() == vector["commitment"]
    for vector in vectors["seeds"]:
        assert str(seed_of_nonce(bytes.fromhex(vector["nonce"]))) == vector["seed"]


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(NAMES), st.binary(min_size=32, max_size=32), st.binary(max_size=200))
def test_name_salt_and_data_are_bound(name, salt, data):
    made = commitment(name, salt, data)
    others = [other for other in NAMES if other != name]
    assert made not in {commitment(other, salt, data) for other in others}
    assert made != commitment(name, bytes([salt[0] ^ 1]) + salt[1:], data)
    assert made != commitment(name, salt, data + b"\0")
    if data:
        assert made != commitment(name, salt, data[:-1])


def test_what_is_no_commitment():
    with pytest.raises(ValueError, match="name"):
        commitment("answer", bytes(32), b"")
    for length in (0, 31, 33):
        with pytest.raises(ValueError, match="32 bytes"):
            commitment("request", bytes(length), b"")


def test_salts_are_new():
    assert len({new_salt() for _ in range(100)}) == 100
    assert len(new_salt()) == 32


def test_ids_and_requests_as_bytes():
    assert ids_bytes([1, 0x01020304]) == bytes.fromhex("0100000004030201")
    assert ids_bytes([]) == b""
    for wrong in (-1, 1 << 32):
        with pytest.raises(OverflowError):
            ids_bytes([wrong])
    assert request_bytes("/v1/completions", b"{}") == b"/v1/completions\0{}"
    with pytest.raises(ValueError, match="zero"):
        request_bytes("/v1\0", b"")
    with pytest.raises(UnicodeEncodeError):
        request_bytes("/é", b"")
