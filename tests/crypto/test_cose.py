from __future__ import annotations

import io

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import crypto.cose as module
from crypto.cbor import decode, encode
from crypto.cose import SM2_WITH_SM3, decode_sign1, sign1
from crypto.errors import FormatError, InvalidSignatureError, SelfTestError
from crypto.release import RELEASE_TYPE
from crypto.signer import SoftwareSigner
from crypto.sm2 import PublicKey, generate, verify

LIMIT = 64 * 1024


@pytest.fixture(scope="module")
def signer():
    return SoftwareSigner(generate())


@pytest.fixture(scope="module")
def vectors(load_vectors):
    return load_vectors("cose.json")


@pytest.fixture(scope="module")
def release(vectors):
    """Return the bytes of a signed release, and its key."""
    data = bytes.fromhex(next(v["data"] for v in vectors["tests"] if v["id"] == "release"))
    return data, PublicKey.from_bytes(bytes.fromhex(vectors["public_key"]))


def test_valid_vectors_verify_and_cbor2_reads_the_same_parts(vectors):
    key = PublicKey.from_bytes(bytes.fromhex(vectors["public_key"]))
    assert len(vectors["tests"]) == 3
    for vector in vectors["tests"]:
        data = bytes.fromhex(vector["data"])
        parsed = decode_sign1(data, max_bytes=len(data))
        parsed.verify(key, typ=vector["typ"])
        assert (parsed.typ, parsed.payload.hex()) == (vector["typ"], vector["payload"])
        assert parsed.key_id.hex() == vectors["key_id"]

        stream = io.BytesIO(data)
        tagged = cbor2.load(stream)
        assert not stream.read()
        assert (tagged.tag, tagged.value[1]) == (18, {})
        assert list(tagged.value) == [parsed.protected, {}, parsed.payload, parsed.signature]
        header = cbor2.loads(parsed.protected)
        assert header == {1: SM2_WITH_SM3, 4: parsed.key_id, 16: parsed.typ}
        message = cbor2.dumps(["Signature1", parsed.protected, b"", parsed.payload])
        verify(key, message, parsed.signature)


def test_invalid_vectors(load_vectors):
    tests = load_vectors("cose_invalid.json")["tests"]
    assert len({test["id"] for test in tests}) == len(tests) >= 45
    for test in tests:
        with pytest.raises(FormatError) as caught:
            decode_sign1(bytes.fromhex(test["data"]), max_bytes=test["max_bytes"])
        found = (caught.value.rule, caught.value.offset)
        assert found == (test["rule"], test["offset"]), test["id"]


@settings(deadline=None, max_examples=15)
@given(st.dictionaries(st.integers(-9, 9), st.binary(max_size=400), max_size=4))
def test_what_is_signed_is_what_is_read(signer, entries):
    payload = encode(entries)
    data = sign1(payload, typ="example/thing;v=3", signer=signer)
    parsed = decode_sign1(data, max_bytes=LIMIT)
    assert (parsed.payload, parsed.typ) == (payload, "example/thing;v=3")
    assert parsed.key_id == signer.key_id
    parsed.verify(signer.public_key, typ="example/thing;v=3")
    assert decode(parsed.payload) == entries


@pytest.mark.parametrize(
    "expected",
    [
        "windhover/statement;v=1",
        "windhover/release;v=2",
        "windhover/release;v=11",
        "windhover/releases;v=1",
        "windhover/release;v=1\n",
        "WINDHOVER/RELEASE;V=1",
        "",
    ],
)
def test_an_object_of_another_type_is_refused(release, expected):
    data, key = release
    with pytest.raises(FormatError) as caught:
        decode_sign1(data, max_bytes=LIMIT).verify(key, typ=expected)
    assert caught.value.rule == "type"


def test_one_payload_under_two_types_has_two_signatures(signer):
    payload = encode({})
    first, second = (
        decode_sign1(sign1(payload, typ=typ, signer=signer), max_bytes=LIMIT)
        for typ in ("example/one;v=1", "example/two;v=1")
    )
    mixed = module.Sign1(
        second.key_id, second.typ, second.payload, first.signature, second.protected
    )
    with pytest.raises(InvalidSignatureError):
        mixed.verify(signer.public_key, typ="example/two;v=1")


def test_another_key_is_refused(release, signer):
    data, key = release
    parsed = decode_sign1(data, max_bytes=LIMIT)
    with pytest.raises(InvalidSignatureError):
        parsed.verify(signer.public_key, typ=RELEASE_TYPE)
    # The header names the other key, but it is not that key's signature.
    named = encode({1: SM2_WITH_SM3, 4: signer.key_id, 16: RELEASE_TYPE})
    forged = module.Sign1(signer.key_id, RELEASE_TYPE, parsed.payload, parsed.signature, named)
    with pytest.raises(InvalidSignatureError):
        forged.verify(signer.public_key, typ=RELEASE_TYPE)
    with pytest.raises(InvalidSignatureError):
        forged.verify(key, typ=RELEASE_TYPE)


def test_a_signature_is_good_only_in_the_name_of_its_key(signer):
    payload = encode({})
    named = encode({1: SM2_WITH_SM3, 4: bytes(32), 16: "example/thing;v=1"})
    signature = signer.sign(module._to_be_signed(named, payload))
    data = module._encode_sign1(named, payload, signature)
    with pytest.raises(InvalidSignatureError):
        decode_sign1(data, max_bytes=LIMIT).verify(signer.public_key, typ="example/thing;v=1")


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_what_is_accepted_after_damage_cbor2_reads_alike(release, data):
    damaged = bytearray(release[0])
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(damaged) - 1))
        damaged[place] = data.draw(st.integers(0, 255))
    try:
        parsed = decode_sign1(damaged, max_bytes=LIMIT)
    except FormatError:
        return
    tagged = cbor2.loads(bytes(damaged))
    assert list(tagged.value) == [parsed.protected, {}, parsed.payload, parsed.signature]
    assert cbor2.loads(parsed.protected) == {1: SM2_WITH_SM3, 4: parsed.key_id, 16: parsed.typ}


def test_every_changed_byte_is_refused(release):
    data, key = release
    for place in range(len(data)):
        wrong = bytearray(data)
        wrong[place] ^= 1 << place % 8
        with pytest.raises((FormatError, InvalidSignatureError)):
            decode_sign1(wrong, max_bytes=LIMIT).verify(key, typ=RELEASE_TYPE)


def test_every_truncation_and_every_appended_byte_is_refused(release):
    data, _ = release
    for length in range(len(data)):
        with pytest.raises(FormatError):
            decode_sign1(data[:length], max_bytes=LIMIT)
    for count in (1, 16, 50):
        with pytest.raises(FormatError) as caught:
            decode_sign1(data + bytes(count), max_bytes=LIMIT)
        assert caught.value.rule == "trailing-bytes"


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=120), st.booleans())
def test_any_bytes_are_read_or_refused(data, tagged):
    try:
        decode_sign1(b"\xd2\x84" + data if tagged else data, max_bytes=LIMIT)
    except FormatError:
        return
    pytest.fail("random bytes passed for a signed object")


@pytest.mark.parametrize("payload", [b"", b"\x18\x17", encode({}) + b"\0", b"\xf6", b"\xd2\x80"])
def test_a_payload_outside_the_subset_is_not_signed(signer, payload):
    with pytest.raises(ValueError, match="no object that can be signed"):
        sign1(payload, typ="example/thing;v=1", signer=signer)


@pytest.mark.parametrize("typ", ["", "thing", "example/thing", "example/thing;v=0", "a/" * 40])
def test_a_type_that_is_none_is_not_signed(signer, typ):
    with pytest.raises(ValueError, match="no object that can be signed"):
        sign1(encode({}), typ=typ, signer=signer)


def test_the_largest_object(signer):
    overhead = len(sign1(encode(bytes(60_000)), typ="example/thing;v=1", signer=signer)) - 60_000
    largest = encode(bytes(LIMIT - overhead))
    assert len(sign1(largest, typ="example/thing;v=1", signer=signer)) == LIMIT
    with pytest.raises(ValueError, match="max-bytes"):
        sign1(encode(bytes(LIMIT - overhead + 1)), typ="example/thing;v=1", signer=signer)


class Device:
    """A signing device that returns what it likes."""

    def __init__(self, public_key, signature):
        self.public_key = public_key
        self.key_id = public_key.key_id
        self.signature = signature
        self.asked = 0

    def sign(self, message):
        self.asked += 1
        return self.signature


@pytest.mark.parametrize("signature", [b"", bytes(64), bytes(63), b"\x01" * 64, b"\x01" * 65])
def test_a_wrong_signature_of_a_device_does_not_leave(signer, signature):
    device = Device(signer.public_key, signature)
    with pytest.raises(SelfTestError):
        sign1(encode({}), typ="example/thing;v=1", signer=device)
    assert device.asked == 1


@pytest.mark.parametrize("key_id", [b"", bytes(31), bytes(32)])
def test_a_device_with_a_wrong_key_id_is_not_asked(signer, key_id):
    device = Device(signer.public_key, b"")
    device.key_id = key_id
    with pytest.raises(SelfTestError, match="key id"):
        sign1(encode({}), typ="example/thing;v=1", signer=device)
    assert device.asked == 0


def test_nothing_is_signed_when_the_encoder_is_broken(signer, monkeypatch):
    device = Device(signer.public_key, b"")
    monkeypatch.setattr(module, "_to_be_signed", lambda protected, payload: encode([payload]))
    with pytest.raises(SelfTestError):
        sign1(encode({}), typ="example/thing;v=1", signer=device)
    monkeypatch.undo()
    other = encode({1: 1})
    right = module._encode_sign1
    monkeypatch.setattr(
        module, "_encode_sign1", lambda protected, payload, sig: right(protected, other, sig)
    )
    with pytest.raises(SelfTestError):
        sign1(encode({}), typ="example/thing;v=1", signer=device)
    assert device.asked == 0
