"""Where gmssl is right it agrees, and where it is wrong it is not used."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from gmssl import sm2 as gmssl_sm2

from crypto.errors import InvalidSignatureError, InvalidTagError
from crypto.sm2 import decrypt, encrypt, encrypt_with, sign, verify
from crypto.sm2_curve import N
from crypto.sm2_points import multiply_generator
from crypto.sm2_verify import verify_digest
from tests.crypto.sm2_case import MESSAGES, both_providers, key_of

# gmssl hashes a quarter of a mebibyte a second.
SHORT = {name: message for name, message in MESSAGES.items() if len(message) < 1000}
D = 0x3945208F7B2144B13F36E38AC6D39F95889393692860B51A42FB81EF4DF7C5B8
KEY = key_of(D)


def gmssl_of(key, d, **options):
    """Return gmssl's object for a key, given in the one way that it takes right: without 04."""
    public = key.public_key.to_bytes()[1:].hex()
    return gmssl_sm2.CryptSM2(private_key=f"{d:064x}", public_key=public, mode=1, **options)


@pytest.mark.parametrize("message", SHORT.values(), ids=SHORT)
@both_providers
def test_gmssl_verifies_ours(provider, message):
    assert gmssl_of(KEY, D).verify_with_sm3(sign(KEY, message, use=provider).hex(), message)


@pytest.mark.parametrize("message", SHORT.values(), ids=SHORT)
def test_we_verify_gmssls(message):
    signature = bytes.fromhex(gmssl_of(KEY, D).sign_with_sm3(message, f"{0xABCDEF:064x}"))
    verify(KEY.public_key, message, signature)


@both_providers
def test_encryption_both_ways(provider):
    plaintext = bytes(range(32))
    theirs = gmssl_of(KEY, D).encrypt(plaintext)
    assert decrypt(KEY, b"\x04" + theirs, use=provider) == plaintext
    ours = encrypt(KEY.public_key, plaintext)
    assert gmssl_of(KEY, D).decrypt(ours[1:]) == plaintext


def test_what_gmssl_accepts_and_we_do_not():
    message = b"message"
    signature = sign(KEY, message)
    gmssl = gmssl_of(KEY, D)
    assert gmssl.verify_with_sm3(signature.hex() + "00", message)
    with pytest.raises(InvalidSignatureError):
        verify(KEY.public_key, message, signature + b"\x00")
    changed = bytearray(encrypt_with(KEY.public_key, b"secret", iter([7])))
    changed[-1] ^= 1
    assert gmssl.decrypt(bytes(changed[1:])) == b"secreu"
    with pytest.raises(InvalidTagError):
        decrypt(KEY, bytes(changed))


def test_a_number_above_n_is_accepted_by_gmssl_only():
    # With k = r d + a small s (1 + d) the signature has that small s; s + n fits into 32 bytes.
    s, r = 5, 0x123456789
    k = (s * (1 + D) + r * D) % N
    digest = ((r - multiply_generator(k).x) % N).to_bytes(32, "big")
    good = r.to_bytes(32, "big") + s.to_bytes(32, "big")
    verify_digest(KEY.public_key, digest, good)
    for doubled in (
        good[:32] + (s + N).to_bytes(32, "big"),
        (r + N).to_bytes(32, "big") + good[32:],
    ):
        with pytest.raises(InvalidSignatureError):
            verify_digest(KEY.public_key, digest, doubled)
    assert gmssl_of(KEY, D).verify((good[:32] + (s + N).to_bytes(32, "big")).hex(), digest)


def test_only_the_multiplication_of_gmssl_is_used():
    package = Path(__file__).parents[2] / "crypto"
    users = [path for path in package.rglob("*.py") if "gmssl" in names_imported(path)]
    assert [path.name for path in users] == ["sm2_hedged.py"]
    used = {
        node.attr
        for node in ast.walk(ast.parse(users[0].read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "_CURVE"
    }
    assert used == {"_kg"}


def names_imported(path):
    """Return the top-level modules that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found
