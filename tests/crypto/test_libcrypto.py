from __future__ import annotations

import ctypes
import ctypes.util
from pathlib import Path

import pytest

import crypto.libcrypto as module
from crypto.errors import InvalidTagError, UnavailableError
from crypto.libcrypto import CallFailedError, LibCrypto, candidates, load, refusal
from crypto.sm2 import decrypt, encrypt, sign, verify
from crypto.sm2_system import SystemProvider, hedge_of
from tests.crypto.sm2_case import SYSTEM, key_of

LEAKY = [
    *[(3, 2, patch) for patch in range(6)],
    *[(3, 3, patch) for patch in range(5)],
    *[(3, 4, patch) for patch in range(3)],
    *[(3, 5, patch) for patch in range(4)],
]
SOUND = [
    (3, 0, 0),
    (3, 0, 19),
    (3, 1, 0),
    (3, 1, 8),
    (3, 2, 6),
    (3, 3, 5),
    (3, 4, 3),
    (3, 5, 4),
    (3, 6, 0),
    (4, 0, 0),
    (4, 0, 3),
    (4, 2, 0),
    (4, 5, 0),
]
NOT_OPENSSL_3_OR_4 = [(1, 1, 1), (2, 0, 0), (5, 0, 0), (0, 0, 0)]


@pytest.mark.parametrize("machine", ["aarch64", "arm64"])
def test_versions_on_64_bit_arm(machine):
    assert [version for version in LEAKY if refusal(version, machine) is None] == []
    assert [version for version in SOUND if refusal(version, machine) is not None] == []
    assert "timing" in refusal((3, 5, 3), machine)


@pytest.mark.parametrize("machine", ["x86_64", "riscv64", "armv7l", "ppc64le"])
def test_versions_elsewhere(machine):
    assert [version for version in LEAKY + SOUND if refusal(version, machine) is not None] == []


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_other_major_versions(machine):
    assert [v for v in NOT_OPENSSL_3_OR_4 if refusal(v, machine) is None] == []


def test_candidates_are_full_paths_of_standard_folders():
    for machine in ("x86_64", "aarch64"):
        paths = candidates(machine)
        assert len(paths) == 6
        assert all(path.is_absolute() and path.parts[1] == "usr" for path in paths)
        assert Path(f"/usr/lib/{machine}-linux-gnu/libcrypto.so.3") in paths


def test_the_environment_does_not_choose(monkeypatch):
    for name in ("LD_LIBRARY_PATH", "OPENSSL_DIR", "PATH"):
        monkeypatch.setenv(name, "/nowhere")
    assert load.__wrapped__().path == load().path


def test_the_loaded_library_says_its_version():
    library = load()
    assert library.path in candidates(module.os.uname().machine)
    assert library.version[0] in (3, 4)
    named = ctypes.CDLL(str(library.path)).OpenSSL_version
    named.restype = ctypes.c_char_p
    assert ".".join(map(str, library.version)).encode() in named(0)


def test_a_library_without_the_functions_is_refused():
    with pytest.raises(UnavailableError, match="cannot be used"):
        LibCrypto(Path(ctypes.util.find_library("c") or "libc.so.6"), "x86_64")
    with pytest.raises(UnavailableError, match="cannot be used"):
        LibCrypto(Path("/usr/lib/there-is-none.so"), "x86_64")


def test_a_refused_version_is_passed_over(monkeypatch):
    here = load().path
    monkeypatch.setattr(module, "candidates", lambda machine: [Path("/absent"), here, here])
    monkeypatch.setattr(module, "refusal", lambda version, machine: "too old")
    with pytest.raises(UnavailableError) as caught:
        load.__wrapped__()
    assert str(caught.value) == f"{here}: too old; {here}: too old"


def test_no_library_at_all(monkeypatch):
    monkeypatch.setattr(module, "candidates", lambda machine: [])
    with pytest.raises(UnavailableError, match="no libcrypto"):
        load.__wrapped__()


def errors_queued():
    """Return the next error in libcrypto's queue of this thread, which is shared with ssl."""
    get_error = ctypes.CDLL(str(load().path)).ERR_get_error
    get_error.restype = ctypes.c_ulong
    return get_error()


def test_a_failure_leaves_no_error_behind():
    key = key_of(77)
    changed = bytearray(encrypt(key.public_key, b"secret"))
    changed[-1] ^= 1
    with pytest.raises(InvalidTagError):
        decrypt(key, bytes(changed), use=SYSTEM)
    assert errors_queued() == 0
    with pytest.raises(CallFailedError):
        load().check("EVP_PKEY_fromdata_init", None)
    assert errors_queued() == 0


class Failing:
    """A library of which one function fails."""

    def __init__(self, name, result=0):
        self._library = load()
        self._fails, self._result = name, result
        self.version, self.path = self._library.version, self._library.path
        self.new = LibCrypto.new.__get__(self)
        self.check = LibCrypto.check.__get__(self)
        self._failed = LibCrypto._failed.__get__(self)

    def call(self, name, *arguments):
        if name == self._fails:
            return self._result
        return self._library.call(name, *arguments)


@pytest.mark.parametrize(
    "name",
    [
        "EVP_PKEY_CTX_new_from_name",
        "EVP_PKEY_fromdata_init",
        "EVP_PKEY_fromdata",
        "EVP_MD_CTX_new",
        "EVP_DigestSignInit",
        "EVP_PKEY_CTX_set1_id",
        "EVP_DigestSign",
    ],
)
def test_every_failure_while_signing_is_seen(name):
    with pytest.raises(UnavailableError):
        sign(key_of(77), b"m", use=SystemProvider(Failing(name)))
    assert errors_queued() == 0


@pytest.mark.parametrize("name", ["OBJ_sn2nid", "BN_bin2bn", "EC_POINT_new", "EC_POINT_mul"])
def test_every_failure_of_a_public_key_is_seen(name):
    with pytest.raises(UnavailableError):
        key_of(77, SystemProvider(Failing(name)))


def test_a_point_that_was_not_written_is_seen():
    with pytest.raises(UnavailableError, match="no public key"):
        key_of(77, SystemProvider(Failing("EC_POINT_point2oct")))


def test_a_signature_that_was_not_written_is_seen():
    with pytest.raises(UnavailableError, match="malformed"):
        sign(key_of(77), b"m", use=SystemProvider(Failing("EVP_DigestSign", result=1)))


@pytest.mark.parametrize("name", ["EVP_PKEY_CTX_new_from_pkey", "EVP_PKEY_decrypt_init"])
def test_a_failure_before_decryption_says_nothing_about_the_ciphertext(name):
    key = key_of(77)
    with pytest.raises(UnavailableError):
        decrypt(key, encrypt(key.public_key, b"m"), use=SystemProvider(Failing(name)))


def test_every_signature_is_hedged_right_before_it_is_made():
    class Recording(Failing):
        calls = ()

        def call(self, name, *arguments):
            self.calls = (*self.calls, (name, arguments))
            return super().call(name, *arguments)

    key, library = key_of(77), Recording("nothing")
    verify(key.public_key, b"m", sign(key, b"m", use=SystemProvider(library)))
    names = [name for name, _ in library.calls]
    at = names.index("EVP_DigestSign")
    assert names[at - 1] == "RAND_add"
    hedge, length, randomness = library.calls[at - 1][1]
    assert (len(hedge), length, randomness) == (32, 32, 0.0)


def test_the_hedge_depends_on_key_and_digest():
    hedges = {hedge_of(bytes([k]) * 32, bytes([e]) * 32) for k in (1, 2) for e in (1, 2)}
    assert len(hedges) == 4
    assert hedge_of(b"\x01" * 32, b"\x01" * 32) in hedges
