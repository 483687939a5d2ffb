from __future__ import annotations

import tracemalloc

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crypto.cbor import MAX_BYTES, MAX_DEPTH, decode, encode
from crypto.errors import CryptoError, FormatError

DEEP = 64
INTEGERS = st.integers(-(2**63), 2**64 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
VALUES = st.recursive(
    st.one_of(INTEGERS, st.booleans(), st.binary(max_size=40), TEXTS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=6),
        st.dictionaries(st.one_of(INTEGERS, TEXTS), inner, max_size=6),
    ),
    max_leaves=20,
)


def value_of(described):
    """Build the value that a vector describes in JSON."""
    if isinstance(described, list):
        return [value_of(element) for element in described]
    if not isinstance(described, dict):
        return described
    ((kind, content),) = described.items()
    if kind == "bytes":
        return bytes.fromhex(content)
    if kind == "int":
        return int(content)
    assert kind == "map"
    return {value_of(key): value_of(element) for key, element in content}


def same(left, right):
    """Compare values and their types: 1 is not True."""
    if type(left) is not type(right):
        return False
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    return left == right


def test_valid_vectors(load_vectors):
    vectors = load_vectors("cbor_valid.json")["tests"]
    assert len(vectors) >= 40
    for vector in vectors:
        data, value = bytes.fromhex(vector["hex"]), value_of(vector["value"])
        assert same(decode(data), value), vector["id"]
        assert encode(value) == data, vector["id"]
        assert same(cbor2.loads(data), value), vector["id"]


def test_invalid_vectors(load_vectors):
    vectors = load_vectors("cbor_invalid.json")["tests"]
    assert len(vectors) >= 40
    assert len({vector["id"] for vector in vectors}) == len(vectors)
    for vector in vectors:
        with pytest.raises(FormatError) as caught:
            decode(bytes.fromhex(vector["hex"]), **vector.get("limits", {}))
        found = (caught.value.rule, caught.value.offset)
        assert found == (vector["rule"], vector["offset"]), vector["id"]


def test_error_says_rule_and_offset():
    with pytest.raises(CryptoError, match=r"^malformed at offset 1: null$"):
        decode(b"\x81\xf6")


@settings(deadline=None, max_examples=100)
@given(VALUES)
def test_round_trip(value):
    data = encode(value, max_depth=DEEP)
    decoded = decode(data, max_depth=DEEP)
    assert decoded == value
    assert encode(decoded, max_depth=DEEP) == data
    assert decode(bytearray(data), max_depth=DEEP) == decoded
    assert decode(memoryview(data), max_depth=DEEP) == decoded


@settings(deadline=None, max_examples=100)
@given(VALUES)
def test_cbor2_agrees(value):
    data = encode(value, max_depth=DEEP)
    assert same(cbor2.loads(data), decode(data, max_depth=DEEP))
    # It keeps the order of a dict, and decoded maps are in the order of the encoding.
    assert cbor2.dumps(decode(data, max_depth=DEEP)) == data


@settings(deadline=None, max_examples=100)
@given(st.dictionaries(st.one_of(INTEGERS, TEXTS), st.booleans(), max_size=8), st.randoms())
def test_order_of_insertion_does_not_matter(value, shuffler):
    keys = list(value)
    shuffler.shuffle(keys)
    assert encode({key: value[key] for key in keys}) == encode(value)


def decodes_to_itself_or_is_refused(data):
    offset = None
    try:
        value = decode(data)
    except FormatError as error:
        offset = error.offset
    if offset is None:
        assert encode(value) == data
        return True
    assert 0 <= offset <= len(data)
    return False


@settings(deadline=None, max_examples=400)
@given(st.binary(max_size=64))
def test_random_bytes(data):
    decodes_to_itself_or_is_refused(data)


@settings(deadline=None, max_examples=100)
@given(VALUES, st.data())
def test_damaged_encodings(value, data):
    encoded = bytearray(encode(value, max_depth=DEEP))
    place = data.draw(st.integers(0, len(encoded) - 1))
    encoded[place] = data.draw(st.integers(0, 255))
    decodes_to_itself_or_is_refused(bytes(encoded))


@settings(deadline=None, max_examples=100)
@given(VALUES)
def test_every_beginning_is_refused(value):
    data = encode(value, max_depth=DEEP)
    for length in range(len(data)):
        with pytest.raises(FormatError):
            decode(data[:length], max_depth=DEEP)


def test_every_short_input_is_refused_or_canonical():
    accepted = sum(
        decodes_to_itself_or_is_refused(value.to_bytes(length, "big"))
        for length in range(3)
        for value in range(256**length)
    )
    # One byte: 24 + 24 integers, empty bytes, text, array, map, two booleans.
    single = 54
    # Two bytes: 232 + 232 integers, 256 byte strings, 128 texts, arrays of one such byte.
    assert accepted == single + 232 + 232 + 256 + 128 + single


@pytest.mark.parametrize(
    "announced",
    ["9bffffffffffffffff", "9a7fffffff", "bb7fffffffffffffff", "5b7fffffffffffffff", "7affffffff"],
)
def test_announced_sizes_are_not_allocated(announced):
    data = bytes.fromhex(announced) + bytes(1000)
    tracemalloc.start()
    with pytest.raises(FormatError):
        decode(data)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 64 * 1024


def test_nested_counts_cannot_multiply():
    # Each array claims as many elements as bytes remain, and each is cut short inside the next.
    data = b"".join(b"\x99" + (40000 - 3 * i).to_bytes(2, "big") for i in range(8)) + bytes(41000)
    with pytest.raises(FormatError):
        decode(data)


def test_limits_of_a_statement_are_the_defaults():
    longest = b"\x59\xff\xfd" + bytes(MAX_BYTES - 3)
    assert decode(longest) == bytes(MAX_BYTES - 3)
    with pytest.raises(FormatError, match="max-bytes"):
        decode(longest + b"\0")
    deepest = b"\x81" * (MAX_DEPTH - 1) + b"\x80"
    assert encode(decode(deepest)) == deepest


def test_limits_can_be_raised():
    data = encode([0] * 70000)
    assert len(data) > MAX_BYTES
    with pytest.raises(FormatError, match="max-items"):
        decode(data, max_bytes=1 << 20)
    assert decode(data, max_bytes=1 << 20, max_items=70001) == [0] * 70000


@pytest.mark.parametrize(
    "value",
    [
        1.0,
        None,
        b"".__class__,
        {1, 2},
        bytearray(b"a"),
        [1.5],
        {"a": None},
        {b"a": 1},
        {True: 1},
        {1.0: 1},
        {(): 1},
    ],
    ids=repr,
)
def test_encode_refuses_types_outside_the_subset(value):
    with pytest.raises(TypeError):
        encode(value)


@pytest.mark.parametrize(
    "value", [2**64, -(2**63) - 1, "\ud800", {2**64: 0}, {"\udfff": 0}], ids=repr
)
def test_encode_refuses_values_outside_the_subset(value):
    with pytest.raises(ValueError, match=r"integers must be|surrogates not allowed"):
        encode(value)


def test_encode_refuses_depth():
    value = []
    for _ in range(MAX_DEPTH - 1):
        value = [value]
    assert decode(encode(value)) == value
    with pytest.raises(ValueError, match="nested too deeply"):
        encode([value])
    endless = {}
    endless["self"] = endless
    with pytest.raises(ValueError, match="nested too deeply"):
        encode(endless)


def test_tuples_are_arrays():
    assert encode((1, (2, b"a"))) == encode([1, [2, b"a"]])
