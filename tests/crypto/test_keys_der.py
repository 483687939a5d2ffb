"""Keys in DER, with every part of the structures exchangeable."""

from __future__ import annotations

import pytest

from crypto.der import INTEGER, OCTET_STRING, SEQUENCE, encode, encode_bit_string, encode_integer
from crypto.errors import FormatError, KeyFileError
from crypto.keys import load_public_key
from crypto.pkcs8 import decode_pkcs8, encode_pkcs8
from crypto.sm2 import PublicKey
from crypto.sm2_curve import G, N
from crypto.sm3 import sm3
from crypto.spki import ALGORITHM, SM2_CURVE
from tests.crypto.key_case import KEY, OTHER, pem, private, refused, saved

EC_PUBLIC_KEY = bytes.fromhex("06072a8648ce3d0201")
P256 = bytes.fromhex("06082a8648ce3d030107")
NULL = b"\x05\x00"
SECRET = encode(OCTET_STRING, (0x5EED).to_bytes(32, "big"))
PUBLIC = encode(0xA1, encode_bit_string(KEY.public_key.to_bytes()))
FORMS = {
    "first": encode(SEQUENCE, EC_PUBLIC_KEY, SM2_CURVE),
    "second": encode(SEQUENCE, SM2_CURVE),
    "second with NULL": encode(SEQUENCE, SM2_CURVE, NULL),
    "second with the curve": encode(SEQUENCE, SM2_CURVE, SM2_CURVE),
}
BAD_FORMS = {
    "P-256": encode(SEQUENCE, EC_PUBLIC_KEY, P256),
    "no curve": encode(SEQUENCE, EC_PUBLIC_KEY),
    "NULL curve": encode(SEQUENCE, EC_PUBLIC_KEY, NULL),
    "explicit curve": encode(SEQUENCE, EC_PUBLIC_KEY, encode(SEQUENCE, encode_integer(1))),
    "curve twice": encode(SEQUENCE, EC_PUBLIC_KEY, SM2_CURVE, SM2_CURVE),
    "two curves": encode(SEQUENCE, SM2_CURVE, P256),
    "NULL with content": encode(SEQUENCE, SM2_CURVE, b"\x05\x01\x00"),
    "empty": encode(SEQUENCE),
    "unknown": encode(SEQUENCE, bytes.fromhex("06032a0304")),
}


def ec_key(*parts, version=1):
    return encode(SEQUENCE, encode_integer(version), *parts)


def info(inner=None, algorithm=ALGORITHM, version=0, more=b""):
    inner = ec_key(SECRET, PUBLIC) if inner is None else inner
    return encode(SEQUENCE, encode_integer(version), algorithm, encode(OCTET_STRING, inner), more)


def test_what_is_written_is_the_first_form():
    assert encode_pkcs8(KEY) == info()
    spki = encode(SEQUENCE, FORMS["first"], encode_bit_string(KEY.public_key.to_bytes()))
    assert KEY.public_key.spki_der() == spki
    assert len(spki) == 91
    assert KEY.key_id == sm3(spki)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_both_forms_are_one_key(form):
    spki = encode(SEQUENCE, form, encode_bit_string(KEY.public_key.to_bytes()))
    assert PublicKey.from_spki_der(spki) == KEY.public_key
    assert PublicKey.from_spki_der(spki).key_id == KEY.key_id
    assert decode_pkcs8(info(algorithm=form)).key_id == KEY.key_id


@pytest.mark.parametrize("form", BAD_FORMS.values(), ids=BAD_FORMS)
def test_other_forms(form):
    spki = encode(SEQUENCE, form, encode_bit_string(KEY.public_key.to_bytes()))
    with pytest.raises((KeyFileError, FormatError)):
        PublicKey.from_spki_der(spki)
    with pytest.raises((KeyFileError, FormatError)):
        decode_pkcs8(info(algorithm=form))


def test_parts_of_a_private_key_that_may_be_absent():
    curve = encode(0xA0, SM2_CURVE)
    for inner in (
        ec_key(SECRET),
        ec_key(SECRET, curve),
        ec_key(SECRET, curve, PUBLIC),
        ec_key(SECRET, PUBLIC),
    ):
        assert decode_pkcs8(info(inner)).public_key == KEY.public_key


def number(value, length=32):
    return encode(OCTET_STRING, value.to_bytes(length, "big"))


BAD_KEYS = {
    "trailing byte": info() + b"\x00",
    "attributes": info(more=encode(0xA0)),
    "version 1": info(version=1),
    "EC version 2": info(ec_key(SECRET, PUBLIC, version=2)),
    "31 bytes": info(ec_key(number(0x5EED, 31))),
    "33 bytes": info(ec_key(number(0x5EED, 33))),
    "integer": info(ec_key(encode_integer(0x5EED))),
    "zero": info(ec_key(number(0))),
    "n - 1": info(ec_key(number(N - 1))),
    "n": info(ec_key(number(N))),
    "n + 1": info(ec_key(number(N + 1))),
    "2^256 - 1": info(ec_key(number(2**256 - 1))),
    "another curve": info(ec_key(SECRET, encode(0xA0, P256))),
    "curve twice": info(ec_key(SECRET, encode(0xA0, SM2_CURVE, SM2_CURVE))),
    "public key first": info(ec_key(SECRET, PUBLIC, encode(0xA0, SM2_CURVE))),
    "another public key": info(
        ec_key(SECRET, encode(0xA1, encode_bit_string(OTHER.public_key.to_bytes())))
    ),
    "compressed public key": info(
        ec_key(SECRET, encode(0xA1, encode_bit_string(b"\x02" + KEY.public_key.to_bytes()[1:33])))
    ),
    "empty public key": info(ec_key(SECRET, encode(0xA1, encode_bit_string(b"")))),
    "long form of length": b"\x30\x82\x00" + info()[2:],
    "RSA in an SM2 frame": info(encode(SEQUENCE, encode(INTEGER, b"\x00"))),
}


@pytest.mark.parametrize("data", BAD_KEYS.values(), ids=BAD_KEYS)
def test_malformed_private_keys(tmp_path, data):
    reason, line = refused(private, saved(tmp_path, pem("PRIVATE KEY", data)))
    assert reason in ("format", "range")
    assert "5eed" not in line.lower()


BAD_POINTS = {
    "beside the curve": G._replace(y=G.y ^ 1).encode(),
    "infinity": b"\x00",
    "zeros": b"\x04" + bytes(64),
    "compressed": b"\x03" + G.encode()[1:33],
    "without 04": G.encode()[1:],
    "too long": G.encode() + b"\x00",
    "empty": b"",
}


@pytest.mark.parametrize("point", BAD_POINTS.values(), ids=BAD_POINTS)
def test_public_keys_off_the_curve(point):
    spki = encode(SEQUENCE, ALGORITHM, encode_bit_string(point))
    assert refused(load_public_key, pem("PUBLIC KEY", spki), role=None)[0] == "format"


def test_every_bit_of_an_spki_counts():
    spki = int.from_bytes(KEY.public_key.spki_der(), "big")
    for bit in range(8 * 91):
        changed = (spki ^ 1 << bit).to_bytes(91, "big")
        with pytest.raises((KeyFileError, FormatError)):
            PublicKey.from_spki_der(changed)
