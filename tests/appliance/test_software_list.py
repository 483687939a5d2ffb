"""The list of files as a file: one form, strictly read, and what differs from it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance import software_list
from appliance.software import SoftwareFile, list_digest
from appliance.software_compare import Differences, compare, read_list_of
from appliance.software_list import (
    MAX_LIST_BYTES,
    encode_list,
    kernels_of,
    list_file_digest,
    parse_list,
)
from crypto.errors import FormatError, PolicyError, UnavailableError
from crypto.release import MAX_INTEGER
from crypto.software import SoftwareManifest
from tests.crypto.test_crypto_readme import table_after

VECTORS = json.loads(
    (Path(__file__).parents[1] / "data" / "crypto" / "software_list.json").read_text()
)


def sm3(data):
    return hashlib.new("sm3", data).digest()


def file(path, content=b"", mode=0o644):
    return SoftwareFile(path, mode, len(content), sm3(content))


def test_valid_vectors():
    for vector in VECTORS["valid"]:
        data = vector["text"].encode()
        files = tuple(
            SoftwareFile(path, mode, length, bytes.fromhex(digest))
            for path, mode, length, digest in vector["files"]
        )
        assert parse_list(data) == files
        assert encode_list(files[::-1]) == data
        assert list_digest(list(files)).hex() == vector["software_digest"]
        assert list_file_digest(data).hex() == vector["list_digest"]
        again = [line.split(" ", 3) for line in vector["text"].splitlines()[1:]]
        assert [(int(m, 8), int(n), bytes.fromhex(d), p) for m, n, d, p in again] == [
            (each.mode, each.length_bytes, each.digest, each.path) for each in files
        ]


@pytest.mark.parametrize("vector", VECTORS["invalid"], ids=[v["id"] for v in VECTORS["invalid"]])
def test_invalid_vectors(vector):
    data = bytes.fromhex(vector["hex"]) if "hex" in vector else vector["text"].encode()
    with pytest.raises(FormatError) as caught:
        parse_list(data)
    assert (caught.value.rule, caught.value.offset) == (vector["rule"], vector["offset"])


def test_every_rule_of_the_table_has_a_case():
    too_long = {"list-bytes"}
    assert {row[0] for row in table_after("list rule")} == too_long | {
        vector["rule"] for vector in VECTORS["invalid"]
    }


def test_bounds_come_before_anything_is_read(monkeypatch):
    with pytest.raises(FormatError) as caught:
        parse_list(bytes(MAX_LIST_BYTES + 1))
    assert (caught.value.rule, caught.value.offset) == ("list-bytes", MAX_LIST_BYTES)
    monkeypatch.setattr(software_list, "MAX_FILES", 3)
    files = [file(f"app/{name}") for name in "abcd"]
    assert len(parse_list(encode_list(files[:3]))) == 3
    with pytest.raises(UnavailableError, match="list-files"):
        encode_list(files)


PARTS = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="/"), min_size=1, max_size=12
).filter(lambda part: part not in (".", ".."))
PATHS = st.builds(
    lambda place, parts: "/".join([place, *parts]),
    st.sampled_from(sorted(software_list.PLACES)),
    st.lists(PARTS, min_size=1, max_size=4),
)
FILES = st.lists(
    st.builds(
        SoftwareFile,
        PATHS,
        st.integers(0, 0o7777),
        st.integers(0, MAX_INTEGER // 20),
        st.binary(min_size=32, max_size=32),
    ),
    min_size=1,
    max_size=20,
    unique_by=lambda each: each.path,
)


@given(FILES, st.randoms(use_true_random=False))
def test_a_list_reads_as_it_was_written_in_whatever_order(files, random):
    data = encode_list(files)
    read = parse_list(data)
    assert set(read) == set(files)
    assert len(read) == len(files)
    random.shuffle(files)
    assert encode_list(files) == data
    assert list_digest(files) == list_digest(list(read))


@given(FILES, st.data())
@settings(max_examples=100)
def test_a_changed_byte_is_another_list_or_none(files, data):
    text = bytearray(encode_list(files))
    place = data.draw(st.integers(0, len(text) - 1))
    text[place] ^= data.draw(st.integers(1, 255))
    try:
        read = parse_list(bytes(text))
    except FormatError:
        return
    assert encode_list(read) == bytes(text)
    assert list_digest(list(read)) != list_digest(files)


@pytest.mark.parametrize("path", ["app/a\nb", "app/\udcff", "app", "etc/a", "app/../b"])
def test_what_no_list_can_have_is_not_written(path):
    with pytest.raises(UnavailableError, match="list-"):
        encode_list([file("app/a"), file(path)])


def test_what_differs_is_named_by_its_kind():
    listed = [file("app/a"), file("app/b"), file("app/c"), file("app/d", b"1"), file("app/e")]
    found = [file("app/a"), file("app/b", mode=0o755), file("app/d", b"2"), file("app/f"),
             file("app/e", mode=0o600)]  # fmt: skip
    differences = compare(listed, found)
    assert differences == Differences(("app/c",), ("app/f",), ("app/d",), ("app/b", "app/e"))
    assert differences
    assert not compare(listed, listed[::-1])
    longer = file("app/a")._replace(length_bytes=9)
    assert compare([file("app/a")], [longer]).changed == ("app/a",)


def manifest_of(data, files, **changed):
    values = {
        "product": "windhover",
        "version": (1, 0, 0),
        "software_digest": list_digest(files),
        "num_files": len(files),
        "num_bytes": sum(each.length_bytes for each in files),
        "list_digest": list_file_digest(data),
        "kernels": (),
        "numerics": ("wh1",),
        "issued": 0,
    }
    return SoftwareManifest(**values | changed)


def test_a_list_is_that_of_its_manifest_alone():
    files = [file("app/a", b"1"), file("lib/b", b"22")]
    data = encode_list(files)
    assert read_list_of(manifest_of(data, files), data) == tuple(files)
    for changed in (
        {"software_digest": bytes(32)},
        {"list_digest": bytes(32)},
        {"num_files": 3},
        {"num_bytes": 4},
    ):
        with pytest.raises(PolicyError) as caught:
            read_list_of(manifest_of(data, files, **changed), data)
        assert caught.value.reason == "software-list-differs"


def test_all_targets_of_a_folder_of_kernels_are_named():
    names = ("avx512-x86-64-v4-00ff", "avx2-x86-64-v3-00ff", "avx2-x86-64-v3-00aa")
    files = [file(f"kernels/{name}/inner/a.nbc") for name in names]
    assert kernels_of([*files, file("app/kernels/b/c"), file("kernels/README")]) == (
        "avx2-x86-64-v3",
        "avx512-x86-64-v4",
    )
