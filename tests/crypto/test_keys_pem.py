from __future__ import annotations

import base64
import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from crypto.keys import load_public_key
from crypto.pem import encode_pem
from crypto.pkcs8 import encode_pkcs8
from tests.crypto.key_case import KEY, PLAIN, pem, private, refused, saved


def other_keys():
    """Return the private keys of other algorithms by name."""
    return {
        "RSA": rsa.generate_private_key(65537, 2048),
        "Ed25519": ed25519.Ed25519PrivateKey.generate(),
        "P-256": ec.generate_private_key(ec.SECP256R1()),
        "P-384": ec.generate_private_key(ec.SECP384R1()),
        "secp256k1": ec.generate_private_key(ec.SECP256K1()),
    }


PRIVATE_PEM = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
PUBLIC_PEM = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
NOT_ENCRYPTED = serialization.NoEncryption()


def test_keys_of_other_algorithms_are_named(tmp_path):
    for name, key in other_keys().items():
        reason, line = refused(
            private, saved(tmp_path, key.private_bytes(*PRIVATE_PEM, NOT_ENCRYPTED))
        )
        assert reason == "format"
        assert name in line
        public = key.public_key().public_bytes(*PUBLIC_PEM)
        reason, line = refused(load_public_key, public, role=None)
        assert reason == "format"
        assert name in line


def certificate():
    """Return a certificate in PEM."""
    key = ed25519.Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "windhover")])
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=1))
    )
    return builder.sign(key, None).public_bytes(serialization.Encoding.PEM)


def test_other_kinds_of_files_are_named(tmp_path):
    old = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, NOT_ENCRYPTED
    )
    public = encode_pem("PUBLIC KEY", KEY.public_key.spki_der(), "weights")
    cases = [
        (certificate(), "certificate"),
        (old, "openssl pkey"),
        (public, "public key where a private"),
        (pem("X509 CRL", b"x"), "X509 CRL"),
        (encode_pkcs8(KEY), "-inform DER"),
        (b"just text\n", "no PEM block"),
    ]
    for content, words in cases:
        reason, line = refused(private, saved(tmp_path, content))
        assert reason == "format"
        assert words in line
    for content in (certificate(), PLAIN):
        assert refused(load_public_key, content, role=None)[0] == "format"
    assert "-pubout" in refused(load_public_key, PLAIN, role=None)[1]


DAMAGES = {
    "two keys": lambda data: data + data,
    "text behind": lambda data: data + b"x\n",
    "no end": lambda data: data[: data.index(b"-----END")],
    "end cut": lambda data: data[:-7],
    "other end": lambda data: data.replace(b"-----END PRIVATE", b"-----END PUBLIC"),
    "begin cut": lambda data: data.replace(b"KEY-----\n", b"KEY----\n", 1),
    "space before begin": lambda data: b" " + data,
    "empty line": lambda data: data.replace(b"\n", b"\n\n", 2),
    "space in a line": lambda data: data.replace(b"M", b" ", 1),
    "no base64": lambda data: data.replace(b"M", b"*", 1),
    "a character missing": lambda data: (
        data[: data.index(b"\n-----END") - 1] + data[data.index(b"\n-----END") :]
    ),
    "nothing in it": lambda data: data.split(b"\n")[0] + b"\n-----END PRIVATE KEY-----\n",
    "one long line": lambda data: pem("PRIVATE KEY", b"").replace(
        b"-----\n", b"-----\n" + base64.b64encode(encode_pkcs8(KEY)) + b"\n", 1
    ),
    "old encryption": lambda data: data.replace(
        b"KEY-----\n", b"KEY-----\nProc-Type: 4,ENCRYPTED\n\n", 1
    ),
    "not ASCII": lambda data: b"\xc3\xa9\n" + data,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_pem(tmp_path, damage):
    content = damage(PLAIN)
    assert content != PLAIN
    assert refused(private, saved(tmp_path, content))[0] == "format"


def test_bits_behind_the_last_byte():
    # 91 bytes end in two characters of which four bits say nothing, and two signs of filling.
    data = encode_pem("PUBLIC KEY", KEY.public_key.spki_der(), "weights")
    at = data.index(b"==")
    assert load_public_key(data, role=None) == KEY.public_key
    for last in (b"B", b"h", b"/"):
        changed = data[: at - 1] + last + data[at:]
        assert refused(load_public_key, changed, role=None)[0] == "format"
    for filling in (b"", b"="):
        changed = data[:at] + filling + data[at + 2 :]
        assert refused(load_public_key, changed, role=None)[0] == "format"


def test_cut_anywhere(tmp_path):
    for length in range(1, len(PLAIN) - 1, 7):
        assert refused(private, saved(tmp_path, PLAIN[:length]))[0] == "format"
