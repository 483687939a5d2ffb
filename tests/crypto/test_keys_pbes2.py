"""Encrypted keys in DER, with every part of the scheme exchangeable."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, modes

from crypto import pbes2
from crypto.der import OCTET_STRING, SEQUENCE, encode, encode_integer, object_identifier
from crypto.kdf import pbkdf2_hmac_sm3
from crypto.pkcs8 import encode_pkcs8
from tests.crypto.key_case import KEY, PASSPHRASE, pem, private, refused, saved

NULL = b"\x05\x00"
PBES2 = bytes.fromhex("06092a864886f70d01050d")
PBKDF2 = bytes.fromhex("06092a864886f70d01050c")
SHA256 = bytes.fromhex("06082a864886f70d0209")
SHA1 = bytes.fromhex("06082a864886f70d0207")
AES256 = bytes.fromhex("060960864801650304012a")
DES3 = bytes.fromhex("06082a864886f70d0307")
IV = encode(OCTET_STRING, bytes(16))
SALT = encode(OCTET_STRING, bytes(16))


def scheme(
    salt=SALT, iterations=2048, extra=b"", prf=(SHA256, NULL), cipher=(AES256, IV), kdf=PBKDF2
):
    function = encode(SEQUENCE, *prf) if prf else b""
    details = encode(SEQUENCE, salt, encode_integer(iterations), extra, function)
    return encode(
        SEQUENCE,
        encode(
            SEQUENCE,
            PBES2,
            encode(SEQUENCE, encode(SEQUENCE, kdf, details), encode(SEQUENCE, *cipher)),
        ),
        encode(OCTET_STRING, bytes(160)),
    )


SCHEMES = {
    "right, other passphrase": (scheme(), "passphrase"),
    "key length stated": (scheme(extra=encode_integer(32)), "passphrase"),
    "no NULL": (scheme(prf=(SHA256,)), "passphrase"),
    "one iteration": (scheme(iterations=1), "passphrase"),
    "no iterations": (scheme(iterations=0), "iterations"),
    "too many iterations": (scheme(iterations=10_000_001), "iterations"),
    "2^63 iterations": (scheme(iterations=2**63), "iterations"),
    "wrong key length": (scheme(extra=encode_integer(16)), "format"),
    "short salt": (scheme(salt=encode(OCTET_STRING, bytes(7))), "format"),
    "long salt": (scheme(salt=encode(OCTET_STRING, bytes(65))), "format"),
    "default PRF": (scheme(prf=None), "format"),
    "SHA-1": (scheme(prf=(SHA1, NULL)), "format"),
    "DES": (scheme(cipher=(DES3, encode(OCTET_STRING, bytes(8)))), "format"),
    "short initial block": (scheme(cipher=(AES256, encode(OCTET_STRING, bytes(15)))), "format"),
    "scrypt": (scheme(kdf=bytes.fromhex("06092b06010401da47040b")), "format"),
    "trailing byte": (scheme() + b"\x00", "format"),
}


@pytest.mark.parametrize(("data", "reason"), SCHEMES.values(), ids=SCHEMES)
def test_schemes(tmp_path, data, reason, monkeypatch):
    derived = []
    real = pbes2.PBKDF2HMAC
    monkeypatch.setattr(pbes2, "PBKDF2HMAC", lambda *a: derived.append(a) or real(*a))
    path = saved(tmp_path, pem("ENCRYPTED PRIVATE KEY", data))
    assert refused(private, path, b"p")[0] == reason
    assert bool(derived) == (reason == "passphrase")


@pytest.mark.parametrize("length", [0, 15, 17])
def test_encrypted_bytes_that_are_no_blocks(tmp_path, length):
    data = scheme()[:-163]
    inner = data[data.index(PBES2) - 2 :]
    content = encode(SEQUENCE, inner, encode(OCTET_STRING, bytes(length)))
    assert (
        refused(private, saved(tmp_path, pem("ENCRYPTED PRIVATE KEY", content)), b"p")[0]
        == "format"
    )


@pytest.mark.parametrize("hash_name", ["1.2.156.10197.1.401.3.1", "1.2.156.10197.1.401.2"])
@pytest.mark.parametrize("cipher_name", ["1.2.156.10197.1.104.2", "2.16.840.1.101.3.4.1.2"])
def test_hmac_sm3_under_both_names(tmp_path, hash_name, cipher_name):
    cipher_id = object_identifier(cipher_name)
    key = pbkdf2_hmac_sm3(PASSPHRASE, bytes(16), 2048, 16)
    algorithm = pbes2._CIPHERS[cipher_id].algorithm(key)
    encryptor = Cipher(algorithm, modes.CBC(bytes(16))).encryptor()
    plain = encode_pkcs8(KEY)
    filling = 16 - len(plain) % 16
    secret = encryptor.update(plain + bytes([filling]) * filling) + encryptor.finalize()
    whole = scheme(prf=(object_identifier(hash_name), NULL), cipher=(cipher_id, IV))
    head = whole[: -2 - 1 - 160]
    inner = head[head.index(PBES2) - 2 :]
    content = encode(SEQUENCE, inner, encode(OCTET_STRING, secret))
    path = saved(tmp_path, pem("ENCRYPTED PRIVATE KEY", content))
    assert private(path, PASSPHRASE).public_key == KEY.public_key
