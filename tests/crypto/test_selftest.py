from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from crypto import cbor, kdf, merkle, selftest, sm2_provider, sm2_verify, sm3, sm4
from crypto.errors import InvalidTagError, SelfTestError, UnavailableError


@pytest.fixture
def untested(monkeypatch):
    """A process that has not passed its self-tests yet."""
    monkeypatch.setattr(selftest, "_passed", False)


def flipped(function):
    """Return a function whose result has one wrong bit."""

    def wrong(*arguments, **options):
        result = bytearray(function(*arguments, **options))
        result[-1] ^= 1
        return bytes(result)

    return wrong


def wrong_ctr_into(key, initial_block, data, out):
    sm4.ctr(key, initial_block, data)
    memoryview(out)[:] = bytes(len(memoryview(out)))


def accepts(*arguments, **options):
    """Check nothing."""


def lenient_decode(data):
    return 23 if data == b"\x18\x17" else selftest._CBOR_VALUE


class WrongSm3(sm3.Sm3):
    def digest(self):
        return bytes(32)


class WrongProvider:
    name = "wrong"

    def __init__(self, **wrong):
        self.right = sm2_provider.provider()
        self.wrong = wrong

    def __getattr__(self, name):
        return self.wrong.get(name) or getattr(self.right, name)


def test_passes():
    selftest.run_self_tests()


def test_the_examples_are_those_of_other_implementations(slow_sm3, slow_tree, load_vectors):
    assert slow_sm3(selftest._SM3_INPUT).hex() == selftest._SM3_DIGEST
    leaves = [slow_tree.leaf(bytes([i])) for i in range(5)]
    assert slow_tree.root(leaves) == selftest._MERKLE_ROOT
    kdf_vectors, sm4_vectors = load_vectors("kdf.json"), load_vectors("sm4.json")
    assert kdf_vectors["hmac"][0]["tag"] == selftest._HMAC_TAG
    assert kdf_vectors["hkdf"][0]["output"] == selftest._HKDF_OUTPUT
    assert kdf_vectors["pbkdf2"][0]["output"] == selftest._PBKDF2_OUTPUT
    assert sm4_vectors["block"][0]["ciphertext"] == selftest._SM4_BLOCK
    wrap = next(vector for vector in sm4_vectors["own"] if vector["id"] == "carry-128")
    assert wrap["ciphertext"] == selftest._SM4_WRAP_TEXT


@pytest.mark.parametrize(
    ("name", "target", "attribute", "replacement"),
    [
        ("SM3", sm3, "sm3", flipped(sm3.sm3)),
        ("SM3", sm3, "Sm3", WrongSm3),
        ("SM3", sm3, "prefixed", lambda prefix: flipped(sm3.sm3)),
        ("HMAC-SM3", kdf, "hmac_sm3", flipped(kdf.hmac_sm3)),
        ("HMAC-SM3", kdf, "check_tag", accepts),
        ("HKDF-SM3", kdf, "hkdf_sm3", flipped(kdf.hkdf_sm3)),
        ("PBKDF2-HMAC-SM3", kdf, "pbkdf2_hmac_sm3", flipped(kdf.pbkdf2_hmac_sm3)),
        ("SM4-CTR", sm4, "ctr", flipped(sm4.ctr)),
        ("SM4-CTR", sm4, "ctr_into", wrong_ctr_into),
        ("SM4-CTR", sm4, "ctr_into", accepts),
        ("CBOR", cbor, "encode", flipped(cbor.encode)),
        ("CBOR", cbor, "decode", lenient_decode),
        ("CBOR", cbor, "decode", lambda data: 23),
        ("Merkle tree", merkle, "root", flipped(merkle.root)),
        ("Merkle tree", merkle, "leaf_hash", flipped(merkle.leaf_hash)),
        ("Merkle tree", merkle, "verify_inclusion", accepts),
        ("SM2 verification", sm2_verify, "verify", accepts),
        ("SM2 verification", sm2_verify, "verify", lambda key, message, signature: 1 / 0),
    ],
)
def test_a_wrong_primitive_stops_everything(
    untested, monkeypatch, name, target, attribute, replacement
):
    monkeypatch.setattr(target, attribute, replacement)
    for _ in range(2):  # a failure is not forgotten
        with pytest.raises(SelfTestError, match=f"^{name}: "):
            selftest.ensure_self_tested()
    monkeypatch.undo()


def raises_invalid_tag(secret, public_key, ciphertext):
    raise InvalidTagError


@pytest.mark.parametrize(
    "wrong",
    [
        {"sign": lambda secret, public_key, message, identifier, digest: bytes(64)},
        {"decrypt": lambda secret, public_key, ciphertext: b"encryption standarc"},
        {"decrypt": raises_invalid_tag},
        {"public_point": lambda secret: selftest._SM2_PUBLIC},
    ],
)
def test_a_wrong_provider_of_sm2_stops_everything(untested, monkeypatch, wrong):
    provider = WrongProvider(**wrong)
    monkeypatch.setattr(sm2_provider, "provider", lambda: provider)
    with pytest.raises(SelfTestError, match="SM2 through wrong"):
        selftest.ensure_self_tested()


def test_a_machine_that_lacks_something_is_not_called_broken(untested, monkeypatch):
    def provider():
        raise UnavailableError("no SM2 here")

    monkeypatch.setattr(sm2_provider, "provider", provider)
    with pytest.raises(UnavailableError):
        selftest.ensure_self_tested()


def test_every_check_runs_once_in_a_process(untested, monkeypatch):
    runs = []
    checks = tuple((name, lambda name=name: not runs.append(name)) for name, _ in selftest._CHECKS)
    monkeypatch.setattr(selftest, "_CHECKS", checks)
    threads = [threading.Thread(target=selftest.ensure_self_tested) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    selftest.ensure_self_tested()
    assert runs == [name for name, _ in selftest._CHECKS]


def test_a_failure_is_followed_by_another_try(untested, monkeypatch):
    monkeypatch.setattr(selftest, "_CHECKS", (("SM3", lambda: False),))
    with pytest.raises(SelfTestError, match="SM3: the self-test gave another result"):
        selftest.ensure_self_tested()
    monkeypatch.setattr(selftest, "_CHECKS", (("SM3", lambda: True),))
    selftest.ensure_self_tested()


def test_signed_objects_and_secrets_load_neither_numpy_nor_numba():
    program = """
import sys
import crypto.cose, crypto.release, crypto.secret
from crypto.selftest import ensure_self_tested
ensure_self_tested()
print({"numpy", "numba"} & set(sys.modules))
"""
    run = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert run.stdout.strip() == "set()"
