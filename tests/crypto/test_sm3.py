from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import crypto.sm3 as module
from crypto.sm3 import Sm3, prefixed, sm3
from crypto.sm3_cryptography import CryptographyState


def test_vectors(load_vectors, slow_sm3):
    count = 0
    for group in load_vectors("sm3.json")["groups"]:
        for vector in group["tests"]:
            message = bytes.fromhex(vector["message"])
            assert sm3(message).hex() == vector["digest"], vector["id"]
            assert slow_sm3(message).hex() == vector["digest"], vector["id"]
            count += 1
    assert count >= 12


@settings(deadline=None, max_examples=60)
@given(st.binary(max_size=300))
def test_equals_plain_integers(slow_sm3, data):
    assert sm3(data) == slow_sm3(data)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.binary(max_size=200), max_size=8))
def test_both_providers_agree_under_any_split(pieces):
    whole = b"".join(pieces)
    hashes = (Sm3(), CryptographyState())
    for state in hashes:
        for piece in pieces:
            state.update(piece)
    assert [state.digest() for state in hashes] == [sm3(whole)] * 2
    assert hashes[1].copy().digest() == hashlib.new("sm3", whole).digest()


@pytest.mark.parametrize("state_class", [Sm3, CryptographyState])
def test_digest_does_not_end_the_computation(state_class):
    state = state_class()
    state.update(b"a")
    assert state.digest() == state.digest() == sm3(b"a")
    state.update(b"bc")
    assert state.digest() == sm3(b"abc")


@pytest.mark.parametrize("state_class", [Sm3, CryptographyState])
def test_copies_are_independent(state_class):
    first = state_class()
    first.update(b"a")
    second = first.copy()
    first.update(b"b")
    second.update(b"c")
    assert first.digest() == sm3(b"ab")
    assert second.digest() == sm3(b"ac")


@pytest.mark.parametrize(
    "buffer", [bytearray(b"abcd"), memoryview(b"abcd").cast("I"), b"", memoryview(b"")]
)
def test_any_buffer(buffer):
    expected = sm3(bytes(buffer))
    state = CryptographyState()
    state.update(buffer)
    assert sm3(buffer) == Sm3(buffer).digest() == state.digest() == expected


@settings(deadline=None, max_examples=50)
@given(st.binary(max_size=80), st.lists(st.binary(max_size=80), max_size=4))
def test_prefixed(prefix, inputs):
    digest = prefixed(prefix)
    assert [digest(data) for data in inputs] == [sm3(prefix + data) for data in inputs]


def test_provider_is_the_standard_library_where_it_has_sm3():
    has_sm3 = "sm3" in hashlib.algorithms_available
    assert (module.PROVIDER == "hashlib") is has_sm3


def test_falls_back_when_the_standard_library_has_no_sm3():
    program = """
import hashlib
def new(name, data=b"", **options):
    raise ValueError("unsupported hash type " + name)
hashlib.new = new
from crypto import merkle, sm3
print(sm3.PROVIDER)
print(sm3.sm3(b"abc").hex(), sm3.Sm3(b"abc").copy().digest().hex(), merkle.leaf_hash(b"bc").hex())
"""
    run = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    abc = sm3(b"abc").hex()
    assert run.stdout.split() == ["cryptography", abc, abc, sm3(b"\0bc").hex()]
