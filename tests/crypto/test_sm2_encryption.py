from __future__ import annotations

import secrets

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crypto.errors import FormatError, InvalidTagError
from crypto.sm2 import ciphertext_from_der, ciphertext_to_der, decrypt, encrypt, encrypt_with
from crypto.sm2_ciphertext import Ciphertext, open_shared, seal
from crypto.sm2_curve import G, N, P, Point
from crypto.sm2_points import multiply_generator
from crypto.sm3 import sm3
from tests.crypto.sm2_case import HEDGED, SYSTEM, both_providers, key_of

KEY = key_of(0xC0FFEE)
OTHER = key_of(0xC0FFEF)
DATA_KEY = bytes(range(32))


@both_providers
@pytest.mark.parametrize("length", [1, 2, 31, 32, 33, 64, 65, 1024])
def test_round_trip(provider, length):
    plaintext = secrets.token_bytes(length)
    ciphertext = encrypt(KEY.public_key, plaintext)
    assert len(ciphertext) == 97 + length
    assert ciphertext[0] == 4
    assert decrypt(KEY, ciphertext, use=provider) == plaintext


@pytest.mark.parametrize("length", [0, 1025])
def test_lengths_that_are_not_encrypted(length):
    with pytest.raises(ValueError, match=r"1 \.\. 1024"):
        encrypt(KEY.public_key, bytes(length))


def test_two_ciphertexts_of_one_plaintext_share_nothing():
    first, second = encrypt(KEY.public_key, DATA_KEY), encrypt(KEY.public_key, DATA_KEY)
    assert first[:65] != second[:65]
    assert first[65:97] != second[65:97]
    assert first[97:] != second[97:]


@both_providers
def test_every_bit_counts(provider):
    ciphertext = encrypt(KEY.public_key, b"k" * 4)
    number = int.from_bytes(ciphertext, "big")
    bits = range(8 * len(ciphertext)) if provider is SYSTEM else range(0, 8 * len(ciphertext), 7)
    for bit in bits:
        changed = (number ^ 1 << bit).to_bytes(len(ciphertext) + 1, "big")[1:]
        with pytest.raises((InvalidTagError, FormatError)):
            decrypt(KEY, changed, use=provider)


@both_providers
def test_the_wrong_key(provider):
    with pytest.raises(InvalidTagError):
        decrypt(OTHER, encrypt(KEY.public_key, DATA_KEY), use=provider)


@both_providers
@pytest.mark.parametrize(
    "point",
    [Point(0, 0), Point(G.x, G.y ^ 1), Point(P, 1), Point(2**256 - 1, 2**256 - 1), Point(1, 0)],
    ids=["zeros", "beside the base point", "x is p", "ones", "y is 0"],
)
def test_points_off_the_curve(provider, point):
    good = Ciphertext.decode(encrypt(KEY.public_key, DATA_KEY))
    with pytest.raises(InvalidTagError):
        decrypt(KEY, good._replace(c1=point).encode(), use=provider)


@both_providers
def test_parts_of_two_ciphertexts(provider):
    a = Ciphertext.decode(encrypt(KEY.public_key, DATA_KEY))
    b = Ciphertext.decode(encrypt(KEY.public_key, DATA_KEY))
    for mixed in (a._replace(c1=b.c1), a._replace(c2=b.c2), a._replace(c3=b.c3)):
        with pytest.raises(InvalidTagError):
            decrypt(KEY, mixed.encode(), use=provider)


MALFORMED = {
    "empty": (lambda c: b"", "sm2-ciphertext-length"),
    "no C2": (lambda c: c[:97], "sm2-ciphertext-length"),
    "too long": (lambda c: c + bytes(1024), "sm2-ciphertext-length"),
    "compressed C1": (lambda c: b"\x02" + c[1:], "sm2-ciphertext-point"),
    "infinite C1": (lambda c: b"\x00" + c[1:], "sm2-ciphertext-point"),
    "hybrid C1": (lambda c: b"\x06" + c[1:], "sm2-ciphertext-point"),
}


@both_providers
@pytest.mark.parametrize(("change", "rule"), MALFORMED.values(), ids=MALFORMED)
def test_malformed(provider, change, rule):
    with pytest.raises(FormatError) as caught:
        decrypt(KEY, change(encrypt(KEY.public_key, DATA_KEY)), use=provider)
    assert (caught.value.rule, caught.value.offset) == (rule, 0)


@both_providers
@pytest.mark.parametrize(
    "change", [lambda c: c[:-1], lambda c: c + b"\x00"], ids=["shorter", "longer"]
)
def test_another_length(provider, change):
    with pytest.raises(InvalidTagError):
        decrypt(KEY, change(encrypt(KEY.public_key, DATA_KEY)), use=provider)


def zero_mask_number(length):
    """Return a k whose mask of this length is zero for KEY, found by trying."""
    return next(k for k in range(1, 1 << 20) if not any(mask_of(k)[:length]))


def mask_of(k):
    shared = multiply_generator(k * 0xC0FFEE % N)
    return sm3(shared.encode()[1:] + b"\x00\x00\x00\x01")


def test_a_mask_of_zeros_is_drawn_again():
    k = zero_mask_number(1)
    ciphertext = encrypt_with(KEY.public_key, b"m", iter([k, k + 1]))
    assert ciphertext == encrypt_with(KEY.public_key, b"m", iter([k + 1]))
    with pytest.raises(ValueError, match="no number"):
        encrypt_with(KEY.public_key, b"m", iter([k]))


@both_providers
def test_a_mask_of_zeros_is_refused(provider):
    k = zero_mask_number(1)
    shared = multiply_generator(k * 0xC0FFEE % N)
    c3 = sm3(shared.x.to_bytes(32, "big") + b"m" + shared.y.to_bytes(32, "big"))
    ciphertext = Ciphertext(multiply_generator(k), c3, b"m")
    with pytest.raises(InvalidTagError):
        decrypt(KEY, ciphertext.encode(), use=provider)


@settings(max_examples=30)
@given(plaintext=st.binary(min_size=1, max_size=100), k=st.integers(1, N - 1))
def test_what_is_sealed_opens(plaintext, k):
    shared = multiply_generator(k)
    ciphertext = seal(G, shared, plaintext)
    if ciphertext is not None:
        assert open_shared(ciphertext, shared) == plaintext
        assert ciphertext_from_der(ciphertext_to_der(ciphertext.encode())) == ciphertext.encode()


def test_der_of_the_standard(load_vectors):
    standard = load_vectors("sm2.json")["standard"]
    ciphertext = bytes.fromhex(standard["ciphertext"])
    der = ciphertext_to_der(ciphertext)
    assert der[:6].hex() == "307c022004eb"
    assert ciphertext_from_der(der) == ciphertext


def der_parts():
    """Return the four elements of an envelope."""
    der = ciphertext_to_der(encrypt_with(KEY.public_key, b"secret", iter([7])))
    parts, at = [], 2
    while at < len(der):
        parts.append(der[at : at + 2 + der[at + 1]])
        at += 2 + der[at + 1]
    return parts


def sequence(*parts):
    content = b"".join(parts)
    return bytes((0x30, len(content))) + content


NOT_DER = {
    "trailing byte": (lambda x, y, h, c: sequence(x, y, h, c) + b"\x00", "der-trailing"),
    "fifth element": (lambda x, y, h, c: sequence(x, y, h, c, b"\x05\x00"), "der-trailing"),
    "C2 missing": (lambda x, y, h, c: sequence(x, y, h), "der-truncated"),
    "C2 and C3 exchanged": (lambda x, y, h, c: sequence(x, y, c, h), "sm2-ciphertext-length"),
    "C2 empty": (lambda x, y, h, c: sequence(x, y, h, b"\x04\x00"), "sm2-ciphertext-length"),
    "C3 short": (
        lambda x, y, h, c: sequence(x, y, b"\x04\x1f" + h[2:-1], c),
        "sm2-ciphertext-length",
    ),
    "y and C3 exchanged": (lambda x, y, h, c: sequence(x, h, y, c), "der-tag"),
    "x empty": (lambda x, y, h, c: sequence(b"\x02\x00", y, h, c), "der-integer"),
    "x not minimal": (lambda x, y, h, c: sequence(b"\x02\x02\x00\x01", y, h, c), "der-integer"),
    "y negative": (lambda x, y, h, c: sequence(x, b"\x02\x01\xff", h, c), "der-integer"),
    "y of 33 bytes": (
        lambda x, y, h, c: sequence(x, b"\x02\x21\x01" + bytes(32), h, c),
        "der-integer-size",
    ),
    "long form of length": (
        lambda x, y, h, c: b"\x30\x81" + sequence(x, y, h, c)[1:],
        "der-length",
    ),
    "cut": (lambda x, y, h, c: sequence(x, y, h, c)[:-1], "der-truncated"),
}


@pytest.mark.parametrize(("change", "rule"), NOT_DER.values(), ids=NOT_DER)
def test_der_is_strict(change, rule):
    assert ciphertext_from_der(sequence(*der_parts()))
    with pytest.raises(FormatError) as caught:
        ciphertext_from_der(change(*der_parts()))
    assert caught.value.rule == rule


def test_der_of_a_ciphertext_that_is_too_long():
    x, y, h, _ = der_parts()
    content = x + y + h + b"\x04\x82\x04\x01" + bytes(1025)
    with pytest.raises(FormatError) as caught:
        ciphertext_from_der(b"\x30\x82" + len(content).to_bytes(2, "big") + content)
    assert caught.value.rule == "sm2-ciphertext-length"


def test_providers_open_each_others():
    ciphertext = encrypt(KEY.public_key, DATA_KEY)
    assert decrypt(KEY, ciphertext, use=SYSTEM) == decrypt(KEY, ciphertext, use=HEDGED) == DATA_KEY
