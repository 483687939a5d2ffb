from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crypto.cbor import encode
from crypto.cbor_map import CborMap
from crypto.errors import FormatError

LETTERS = re.compile(r"[a-z]+")


def read(entries, required=frozenset({1}), optional=frozenset({2}), **options):
    return CborMap(encode(entries), required, optional, **{"max_bytes": 1000} | options)


def rule_and_offset(function, *arguments, **options):
    with pytest.raises(FormatError) as caught:
        function(*arguments, **options)
    return caught.value.rule, caught.value.offset


def test_keys():
    assert 2 not in read({1: 0})
    assert 2 in read({1: 0, 2: 0})
    assert rule_and_offset(read, {2: 0}) == ("missing-key", 0)
    assert rule_and_offset(read, {1: 0, 3: 0}) == ("unknown-key", 4)
    assert rule_and_offset(read, {1: 0, "1": 0}) == ("unknown-key", 5)
    assert rule_and_offset(read, {1: 0, 3: 0}, start=100) == ("unknown-key", 104)
    assert rule_and_offset(read, [1]) == ("object-map", 0)


def test_offsets_of_what_the_decoder_refuses_are_moved():
    data = encode({1: b"four"})[:-1]
    found = rule_and_offset(CborMap, data, {1}, max_bytes=1000, start=50)
    assert found == ("length-exceeds-input", 52)
    assert rule_and_offset(read, {1: bytes(99)}, max_bytes=20, start=5) == ("max-bytes", 25)


@pytest.mark.parametrize("value", [5, -3, 0, 2**53])
def test_integers_in_range(value):
    assert read({1: value}).integer(1, value, value) == value
    assert rule_and_offset(read({1: value}).integer, 1, value + 1, value + 2)[0] == "value-range"
    assert rule_and_offset(read({1: value}).integer, 1, value - 2, value - 1)[0] == "value-range"


def test_types():
    for value in (True, False, "5", b"5", [5], {5: 5}):
        assert rule_and_offset(read({1: value}).integer, 1, 0, 9) == ("value-type", 2)
    for value in (True, 5, "5", [b"5"]):
        assert rule_and_offset(read({1: value}).octets, 1, 0, 9) == ("value-type", 2)
    for value in (True, 5, b"a", ["a"]):
        assert rule_and_offset(read({1: value}).text, 1, LETTERS, 9) == ("value-type", 2)
    integers = {"counts": (0, 9), "least": 0, "most": 9}
    for value in (True, 5, b"a", {0: 0}, [True], ["a"], [[1]]):
        assert rule_and_offset(read({1: value}).integers, 1, **integers) == ("value-type", 2)


def test_lengths_and_characters():
    for length in (2, 3):
        assert read({1: bytes(length)}).octets(1, 2, 3) == bytes(length)
    for length in (0, 1, 4):
        assert rule_and_offset(read({1: bytes(length)}).octets, 1, 2, 3)[0] == "value-range"
    assert read({1: "abc"}).text(1, LETTERS, 3) == "abc"
    for text in ("", "abcd"):
        assert rule_and_offset(read({1: text}).text, 1, LETTERS, 3)[0] == "value-range"
    for text in ("aB", "a\n", "\u00e4"):
        assert rule_and_offset(read({1: text}).text, 1, LETTERS, 3)[0] == "text-characters"
    pair = {"counts": (1, 2), "least": 3, "most": 4}
    assert read({1: [4, 3]}).integers(1, **pair) == (4, 3)
    for numbers in ([], [3, 3, 3], [2], [5], [3, 5]):
        assert rule_and_offset(read({1: numbers}).integers, 1, **pair)[0] == "value-range"


VALUES = st.integers(-(2**63), 2**64 - 1) | st.binary(max_size=300) | st.text(max_size=40)


@settings(deadline=None, max_examples=80)
@given(st.dictionaries(st.integers(-300, 300), VALUES, min_size=1, max_size=30), st.data())
def test_a_refusal_names_the_place_of_the_value(entries, data):
    key = data.draw(st.sampled_from(sorted(entries)))
    encoded = encode(entries)
    fields = CborMap(encoded, entries.keys(), max_bytes=len(encoded), start=7)
    place = fields.refusal(key, "some-rule").offset - 7
    assert encoded[place:].startswith(encode(entries[key]))
    assert encoded[:place].endswith(encode(key))
