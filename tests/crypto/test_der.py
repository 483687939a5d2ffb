from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crypto.der import (
    BIT_STRING,
    CONTEXT,
    INTEGER,
    NULL,
    OCTET_STRING,
    SEQUENCE,
    DerReader,
    encode,
    encode_bit_string,
    encode_integer,
    object_identifier,
)
from crypto.errors import FormatError
from tests.crypto.test_crypto_readme import table_after

CRYPTO = Path(__file__).parents[2] / "crypto"


@given(st.integers(0, 2**300))
def test_integers(value):
    encoded = encode_integer(value)
    reader = DerReader(encoded)
    assert reader.integer(64) == value
    reader.finish()
    assert encoded[2:] == value.to_bytes((value.bit_length() + 8) // 8, "big")


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_strings_in_a_sequence(a, b):
    data = encode(SEQUENCE, encode(OCTET_STRING, a), encode_bit_string(b), encode(NULL))
    reader = DerReader(data).sequence()
    assert (reader.octet_string(), reader.bit_string()) == (a, b)
    assert reader.next_tag() == NULL
    reader.null()
    assert reader.next_tag() is None
    reader.finish()


@pytest.mark.parametrize("length", [0, 1, 127, 128, 255, 256, 65535, 65536])
def test_lengths(length):
    data = encode(OCTET_STRING, bytes(length))
    assert DerReader(data).octet_string() == bytes(length)
    assert len(data) == length + 2 + (length > 127) + (length > 255) + (length > 65535)


def test_what_is_not_encoded():
    with pytest.raises(ValueError, match="negative"):
        encode_integer(-1)
    with pytest.raises(ValueError, match="16 MiB"):
        encode(OCTET_STRING, bytes(1 << 24))


@pytest.mark.parametrize(
    ("dotted", "hexadecimal"),
    [
        ("1.2.840.10045.2.1", "06072a8648ce3d0201"),
        ("1.2.156.10197.1.301", "06082a811ccf5501822d"),
        ("1.2.156.10197.1.104.2", "06082a811ccf55016802"),
        ("1.2.840.113549.1.5.13", "06092a864886f70d01050d"),
        ("2.16.840.1.101.3.4.1.42", "060960864801650304012a"),
        ("1.3.101.112", "06032b6570"),
        ("2.999", "06028837"),
    ],
)
def test_object_identifiers(dotted, hexadecimal):
    data = bytes.fromhex(hexadecimal)
    assert object_identifier(dotted) == data
    assert DerReader(data).object_identifier() == data


INVALID = {
    "nothing": ("", OCTET_STRING, "der-truncated"),
    "tag alone": ("04", OCTET_STRING, "der-truncated"),
    "another tag": ("0500", OCTET_STRING, "der-tag"),
    "content missing": ("040201", OCTET_STRING, "der-truncated"),
    "length missing": ("0482", OCTET_STRING, "der-truncated"),
    "length cut": ("048201", OCTET_STRING, "der-truncated"),
    "indefinite": ("04800000", OCTET_STRING, "der-length"),
    "length too long": ("0484000000010a", OCTET_STRING, "der-length"),
    "reserved length": ("04ff", OCTET_STRING, "der-length"),
    "long form of 1": ("04810100", OCTET_STRING, "der-length"),
    "long form of 127": ("04817f" + "00" * 127, OCTET_STRING, "der-length"),
    "two bytes for 128": ("04820080" + "00" * 128, OCTET_STRING, "der-length"),
    "integer empty": ("0200", INTEGER, "der-integer"),
    "integer negative": ("0201ff", INTEGER, "der-integer"),
    "integer with a zero": ("0202007f", INTEGER, "der-integer"),
    "integer with two zeros": ("0203000080", INTEGER, "der-integer"),
    "integer too large": ("020300ffff", INTEGER, "der-integer-size"),
    "bit string empty": ("0300", BIT_STRING, "der-bit-string"),
    "bit string with unused bits": ("03020780", BIT_STRING, "der-bit-string"),
    "null with content": ("050100", NULL, "der-null"),
}


@pytest.mark.parametrize(("data", "tag", "rule"), INVALID.values(), ids=INVALID)
def test_invalid(data, tag, rule):
    # behind an element, so that an offset counts from the beginning of the input
    reader = DerReader(bytes.fromhex("0101ff" + data), 3)
    read = {
        OCTET_STRING: reader.octet_string,
        INTEGER: lambda: reader.integer(1),
        BIT_STRING: reader.bit_string,
        NULL: reader.null,
    }[tag]
    with pytest.raises(FormatError) as caught:
        read()
    assert (caught.value.rule, caught.value.offset) == (rule, 3)


def test_an_element_does_not_reach_out_of_its_sequence():
    data = bytes.fromhex("3003 0402 01" + "0201")
    reader = DerReader(data).sequence()
    with pytest.raises(FormatError) as caught:
        reader.octet_string()
    assert (caught.value.rule, caught.value.offset) == ("der-truncated", 2)


def test_trailing_bytes():
    reader = DerReader(bytes.fromhex("050000"))
    reader.null()
    with pytest.raises(FormatError) as caught:
        reader.finish()
    assert (caught.value.rule, caught.value.offset) == ("der-trailing", 2)


def test_explicit_tags():
    data = encode(CONTEXT + 1, encode(NULL))
    assert data.hex() == "a1020500"
    DerReader(data).constructed(CONTEXT + 1).null()
    with pytest.raises(FormatError):
        DerReader(data).constructed(CONTEXT)


def offset_of_error(read):
    """Return where an error of the format is; None without one, anything else passes through."""
    try:
        read()
    except FormatError as error:
        return error.offset
    return None


@given(st.binary(max_size=40))
def test_only_format_errors_leave(data):
    for read in ("sequence", "octet_string", "bit_string", "object_identifier", "null"):
        assert offset_of_error(getattr(DerReader(data), read)) in (None, 0)


def test_rules_equal_the_table():
    raised = set()
    for name in ("der", "sm2_ciphertext", "sm2_der", "pkcs8"):
        tree = ast.parse((CRYPTO / f"{name}.py").read_text(encoding="utf-8"))
        raised |= {
            node.args[1].value
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "FormatError"
        }
    assert raised == {row[0] for row in table_after("DER rule")}
