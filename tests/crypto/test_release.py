from __future__ import annotations

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crypto.errors import FormatError
from crypto.release import MAX_INTEGER, MAX_RELEASE_BYTES, Release, decode_release

NUMBERS = {
    "model_digest": -70101,
    "line": -70102,
    "release": -70103,
    "not_before": -70104,
    "expires": -70105,
    "least_runtime": -70106,
    "supersedes": -70107,
}
LISTS = ("least_runtime", "supersedes")


def fields(vector):
    """Return what a valid vector says, as the arguments of a release."""
    values = {name: vector[name] for name in NUMBERS}
    values["model_digest"] = bytes.fromhex(values["model_digest"])
    return values | {name: tuple(values[name]) for name in LISTS}


def test_valid_vectors(load_vectors):
    vectors = load_vectors("release.json")["valid"]
    assert len(vectors) == 4
    for vector in vectors:
        data = bytes.fromhex(vector["data"])
        release = Release(**fields(vector))
        assert decode_release(data) == release, vector["id"]
        assert release.encode() == data, vector["id"]


def test_cbor2_reads_and_writes_the_same_bytes(load_vectors):
    for vector in load_vectors("release.json")["valid"]:
        expected = {
            number: list(value) if name in LISTS else value
            for name, number in NUMBERS.items()
            if (value := fields(vector)[name]) is not None
        }
        data = bytes.fromhex(vector["data"])
        assert cbor2.loads(data) == expected, vector["id"]
        assert cbor2.dumps(expected, canonical=True) == data, vector["id"]


def test_invalid_vectors(load_vectors):
    vectors = load_vectors("release.json")["invalid"]
    assert len({vector["id"] for vector in vectors}) == len(vectors) >= 55
    for vector in vectors:
        with pytest.raises(FormatError) as caught:
            decode_release(bytes.fromhex(vector["data"]))
        found = (caught.value.rule, caught.value.offset)
        assert found == (vector["rule"], vector["offset"]), vector["id"]


@st.composite
def releases(draw):
    release = draw(st.integers(1, MAX_INTEGER))
    not_before = draw(st.integers(0, MAX_INTEGER - 1))
    withdrawn = min(64, release - 1)
    return Release(
        model_digest=draw(st.binary(min_size=32, max_size=32)),
        line=draw(st.from_regex(r"[a-z0-9][a-z0-9._-]{0,63}", fullmatch=True)),
        release=release,
        not_before=not_before,
        expires=draw(st.none() | st.integers(not_before + 1, MAX_INTEGER)),
        least_runtime=draw(st.tuples(*[st.integers(0, 65535)] * 3)),
        supersedes=tuple(
            sorted(draw(st.sets(st.integers(1, max(1, release - 1)), max_size=withdrawn)))
        ),
    )


@settings(deadline=None, max_examples=100)
@given(releases())
def test_round_trip(release):
    data = release.encode()
    assert decode_release(data) == release
    assert decode_release(data).encode() == data
    assert len(data) <= MAX_RELEASE_BYTES


@settings(deadline=None, max_examples=60)
@given(releases(), st.data())
def test_a_changed_byte_gives_another_release_or_none(release, data):
    written = bytearray(release.encode())
    place = data.draw(st.integers(0, len(written) - 1))
    written[place] ^= 1 << data.draw(st.integers(0, 7))
    try:
        read = decode_release(written)
    except FormatError:
        return
    assert read != release


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("model_digest", bytes(31), "value-range"),
        ("model_digest", "digest", "value-type"),
        ("line", "Chat", "text-characters"),
        ("line", "", "value-range"),
        ("release", 0, "value-range"),
        ("release", True, "value-type"),
        ("not_before", -1, "value-range"),
        ("expires", 0, "release-expiry"),
        ("expires", MAX_INTEGER + 1, "value-range"),
        ("least_runtime", (1, 2), "value-range"),
        ("least_runtime", (1, 2, 65536), "value-range"),
        ("supersedes", (2, 1), "release-order"),
        ("supersedes", (1, 3), "release-superseded"),
        ("supersedes", tuple(range(1, 66)), "value-range"),
    ],
)
def test_a_release_that_a_reader_would_refuse_is_not_written(name, value, rule):
    values = {
        "model_digest": bytes(32),
        "line": "chat-8b",
        "release": 3,
        "not_before": 0,
        "expires": None,
        "least_runtime": (0, 1, 0),
    }
    assert Release(**values).encode()
    with pytest.raises(ValueError, match=rule):
        Release(**values | {name: value}).encode()
