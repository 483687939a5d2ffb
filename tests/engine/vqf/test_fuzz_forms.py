"""Signed and sealed files of any content: only errors with a name leave the reader.

The sealed ones are made by a holder of the data key, so that what is behind the tags is reached.
"""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crypto import cbor
from crypto.errors import KeyFileError
from engine.errors import FormatError, WeightsError
from engine.vqf import open_vqf, outline
from engine.vqf.unlock import Unlock
from tests.engine.vqf import second, vectors
from tests.engine.vqf.damage_forms import edited_section
from tests.engine.vqf.test_fuzz import paths, values
from tests.engine.vqf.vectors import DATA, FOR_KEYS, FOR_PASSPHRASE, PLAIN, SIGNED

pytestmark = pytest.mark.usefixtures("quick_derivation")

BASE = (DATA / FOR_KEYS).read_bytes()
PLAIN_BYTES = (DATA / PLAIN).read_bytes()
SECTION = (DATA / SIGNED).read_bytes()[32_768:]
EITHER = Unlock((vectors.remembering("alice"),), vectors.passphrase())

FUZZ = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)


def opened(path: Path, data: bytes) -> bool:
    """Open, read everything, and look at the outline; return whether it was a file."""
    path.write_bytes(data)
    try:
        seen = outline(path)
    except FormatError:
        seen = None
    try:
        with open_vqf(path, EITHER) as file:
            for extent in file.manifest.extents:
                assert extent.offset_bytes + extent.size_bytes <= len(data)
                file.read_bytes(extent.name)
            assert seen is not None
            assert seen.preamble == file.preamble
    except (FormatError, WeightsError, KeyFileError) as error:
        refusal: Exception = error
    else:
        return True
    assert seen is not None or isinstance(refusal, FormatError)
    assert "\n" not in str(refusal)
    return False


def parts() -> second.Sealed:
    return second.taken_apart(BASE, vectors.data_key(FOR_KEYS))


def header_tagged(data: bytearray) -> bytes:
    """Make the header tag that of a holder of the data key."""
    tag = parts().header_tag(bytes(data[: second.HEADER_TAG]))
    data[second.HEADER_TAG : second.MANIFEST] = tag
    return bytes(data)


def spliced(draw: st.DataObject, data: bytes, most: int) -> bytes:
    """Change, remove or insert some bytes."""
    changed = bytearray(data)
    for _ in range(draw.draw(st.integers(1, most))):
        at = draw.draw(st.integers(0, len(changed)))
        changed[at : at + draw.draw(st.integers(0, 3))] = draw.draw(st.binary(max_size=4))
    return bytes(changed)


def test_the_undamaged_files_are_some(tmp_path: Path) -> None:
    assert opened(tmp_path / "f.vqf", BASE)
    assert opened(tmp_path / "f.vqf", (DATA / SIGNED).read_bytes())


@FUZZ
@given(data=st.data(), tagged=st.booleans())
def test_head_bytes(tmp_path: Path, data: st.DataObject, tagged: bool) -> None:
    """Bytes of preamble and recipients, with a header tag that fits or does not."""
    changed = bytearray(BASE)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, 127) | st.integers(128, 600) | st.integers(0, 16_511))
        changed[at] = data.draw(st.integers(0, 255))
    same = changed == bytearray(BASE)
    found = opened(tmp_path / "f.vqf", header_tagged(changed) if tagged else bytes(changed))
    assert same <= found
    if not tagged:
        assert found == same


@FUZZ
@given(
    fields=st.dictionaries(
        st.sampled_from(sorted(second.FIELDS)),
        st.integers(0, 2**64 - 1)
        | st.sampled_from([0, 1, 3, 32, 160, 192, 4096, 20_480, 24_576, 28_672, 49_152, 2**63]),
        min_size=1,
    )
)
def test_preamble_fields(tmp_path: Path, fields: dict[str, int]) -> None:
    """Any numbers, under a header tag that fits."""
    changed = bytearray(BASE)
    for name, value in fields.items():
        at, width = second.FIELDS[name]
        changed[at : at + width] = (value % 256**width).to_bytes(width, "little")
    same = bytes(changed) == BASE
    assert opened(tmp_path / "f.vqf", header_tagged(changed)) == same


def recipients_of(name: str) -> Any:
    raw = (DATA / name).read_bytes()
    return cbor.decode(raw[132 : 132 + int.from_bytes(raw[128:132], "little")])


@FUZZ
@given(data=st.data(), name=st.sampled_from([FOR_KEYS, FOR_PASSPHRASE]))
def test_recipients_values(tmp_path: Path, data: st.DataObject, name: str) -> None:
    """Well-formed recipients that say anything at any place."""
    tree = _edited(data, recipients_of(name))
    made = parts()
    made.recipients = cbor.encode(tree, max_depth=20)[:16_380]
    opened(tmp_path / "f.vqf", made.built())


@FUZZ
@given(data=st.data(), name=st.sampled_from([FOR_KEYS, FOR_PASSPHRASE]))
def test_recipients_bytes(tmp_path: Path, data: st.DataObject, name: str) -> None:
    made = parts()
    made.recipients = spliced(data, cbor.encode(recipients_of(name)), 4)
    opened(tmp_path / "f.vqf", made.built())


@FUZZ
@given(area=st.binary(max_size=200))
def test_any_recipients(tmp_path: Path, area: bytes) -> None:
    changed = bytearray(BASE)
    changed[128:16_512] = area.ljust(16_384, b"\0")
    assert not opened(tmp_path / "f.vqf", header_tagged(changed))


@FUZZ
@given(data=st.data(), sealed=st.booleans())
def test_signatures_bytes(tmp_path: Path, data: st.DataObject, sealed: bool) -> None:
    section = spliced(data, SECTION, 4)
    opened(tmp_path / "f.vqf", with_section(section, sealed=sealed))


@FUZZ
@given(section=st.binary(min_size=1, max_size=300), sealed=st.booleans())
def test_any_signatures(tmp_path: Path, section: bytes, sealed: bool) -> None:
    assert not opened(tmp_path / "f.vqf", with_section(section, sealed=sealed))


@FUZZ
@given(data=st.data(), sealed=st.booleans(), place=st.sampled_from(["protected", "payload"]))
def test_signatures_values(tmp_path: Path, data: st.DataObject, sealed: bool, place: str) -> None:
    """Signatures whose headers or payloads say anything at any place."""
    entries: Any = cbor.decode(SECTION)
    inside = cbor.decode(cbor.decode(entries[0][1:])[0 if place == "protected" else 2])
    tree = _edited(data, inside)
    digest = PLAIN_BYTES[96:128]
    edit = {"entry": 0, place: [], "to": tree}
    section = edited_section(SECTION, digest, [edit])
    opened(tmp_path / "f.vqf", with_section(section, sealed=sealed))


def with_section(section: bytes, *, sealed: bool) -> bytes:
    if not sealed:
        return second.signed(PLAIN_BYTES, section)
    made = parts()
    made.signatures = section
    return made.built()


@FUZZ
@given(data=st.data())
def test_manifest_values(tmp_path: Path, data: st.DataObject) -> None:
    """Manifests that a holder of the data key has written, with any numbers of tags."""
    made = parts()
    made.manifest = cbor.encode(_edited(data, cbor.decode(made.manifest)), max_depth=20)
    if data.draw(st.booleans()):
        made.signatures = b""
    made.extra_tags = bytes(32 * data.draw(st.integers(0, 2)))
    opened(tmp_path / "f.vqf", made.built())


@FUZZ
@given(data=st.data())
def test_pieces_of_two_files(tmp_path: Path, data: st.DataObject) -> None:
    """Bytes of one sealed file in another of the same length."""
    other = (DATA / FOR_PASSPHRASE).read_bytes()
    assert len(other) == len(BASE)
    changed = bytearray(BASE)
    for _ in range(data.draw(st.integers(1, 3))):
        ends = [0, 128, 16_512, 16_544, 17_801, 20_480, 24_576, 49_152]
        first, last = sorted(data.draw(st.tuples(*[st.sampled_from(ends)] * 2)))
        changed[first:last] = other[first:last]
    assert opened(tmp_path / "f.vqf", bytes(changed)) == (bytes(changed) == BASE)


def _edited(data: st.DataObject, tree: Any) -> Any:
    """Put any values at some places of a tree."""
    tree = deepcopy(tree)
    for _ in range(data.draw(st.integers(1, 3))):
        here = paths(tree)
        if not here:
            break
        path = data.draw(st.sampled_from(here))
        parent: Any = tree
        for step in path[:-1]:
            parent = parent[step]
        parent[path[-1]] = data.draw(values)
    return tree
