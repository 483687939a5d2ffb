"""Chunks exchanged, dropped, repeated, taken from elsewhere, or tagged anew by a recipient."""

from __future__ import annotations

import os
import secrets
import threading
from pathlib import Path

import pytest

from crypto import cbor, merkle
from engine.errors import FormatError, WeightsError, WeightsUncheckedError
from engine.vqf import open_vqf
from engine.vqf.verify import verify_all
from tests.engine.vqf import vectors
from tests.engine.vqf.chunky import MIB, NAMES
from tests.engine.vqf.holder import Holder

ALICE = vectors.unlock("alice")
EMBEDDING, TOKENIZER = 0, 3


@pytest.fixture
def holder(model: Path) -> Holder:
    return Holder(model / "sealed.vqf", ALICE)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "attacked.vqf"


def check_of(path: Path, name: str) -> str | None:
    """Open a file, read an extent and return the comparison that refused it."""
    with open_vqf(path, ALICE) as file:
        memory = bytearray(b"\x55" * file.extent(name).size_bytes)
        with pytest.raises(WeightsError) as caught:
            file.read_extent(name, memory)
        assert not any(memory), "bytes that did not verify were left in the caller's memory"
        with pytest.raises(WeightsError):
            verify_all(file, num_threads=2)
    return caught.value.check


def refusal_at_opening(path: Path) -> str | None:
    """Return the rule or comparison that refuses to open the file."""
    with pytest.raises((FormatError, WeightsError)) as caught:
        open_vqf(path, ALICE)
    error = caught.value
    return error.rule if isinstance(error, FormatError) else error.check


def test_the_grid(holder: Holder) -> None:
    """What follows needs several chunks of equal length in one extent and in two."""
    shape = [(chunk.extent, chunk.length) for chunk in holder.chunks]
    assert shape[:3] == [(0, MIB), (0, MIB), (0, 4096)]
    assert shape[5:] == [(3, MIB), (3, 4096), (4, 4096)]


@pytest.mark.parametrize(
    ("first", "other"),
    [((0, 0), (0, 1)), ((0, 1), (3, 0)), ((0, 2), (3, 1)), ((3, 1), (4, 0))],
    ids=["within an extent", "between extents", "last ones", "neighbours of two extents"],
)
@pytest.mark.parametrize("with_tags", [False, True], ids=["alone", "with their tags"])
def test_chunks_exchanged(
    holder: Holder, target: Path, first: tuple[int, int], other: tuple[int, int], with_tags: bool
) -> None:
    a, b = holder.number(*first), holder.number(*other)
    holder.exchange(holder.span(a), holder.span(b))
    if with_tags:
        holder.exchange(holder.tag_span(a), holder.tag_span(b))
    path = holder.save(target)
    assert check_of(path, NAMES[first[0]]) == "V5"
    assert check_of(path, NAMES[other[0]]) == "V5"


def test_chunks_exchanged_and_tagged_anew(holder: Holder, target: Path) -> None:
    """Every recipient can do that: only the root, which is signed, sees it."""
    holder.exchange(holder.span(0), holder.span(1))
    holder.retag(0, 1)
    assert check_of(holder.save(target), "embedding") == "V6"


def test_plain_chunks_exchanged_and_sealed_anew(holder: Holder, target: Path, model: Path) -> None:
    """As before, by way of the plain text, so that nothing but the order is another."""
    plain = (model / "plain.vqf").read_bytes()
    start = int.from_bytes(plain[48:56], "little")
    holder.parts.data = plain[start + MIB : start + 2 * MIB] + plain[start : start + MIB]
    for number in (0, 1):
        holder.raw[holder.span(number)] = holder.parts.sealed_chunk(holder.chunks[number])
    holder.retag(0, 1)
    assert check_of(holder.save(target), "embedding") == "V6"


def test_tags_exchanged(holder: Holder, target: Path) -> None:
    holder.exchange(holder.tag_span(0), holder.tag_span(1))
    assert check_of(holder.save(target), "embedding") == "V5"


def test_chunk_repeated_over_its_neighbour(holder: Holder, target: Path) -> None:
    holder.raw[holder.span(1)] = holder.raw[holder.span(0)]
    holder.raw[holder.tag_span(1)] = holder.raw[holder.tag_span(0)]
    assert check_of(holder.save(target), "embedding") == "V5"


def test_chunk_dropped(holder: Holder, target: Path) -> None:
    """Step by step somebody mends what refuses him; the manifest knows the grid."""
    del holder.raw[holder.span(1)]
    assert refusal_at_opening(holder.save(target)) == "R7"
    holder.set_field("file_length", len(holder.raw))
    assert refusal_at_opening(holder.save(target)) == "R12"
    holder.set_field("data_length", holder.field("data_length") - MIB)
    assert refusal_at_opening(holder.save(target)) == "V2"
    holder.retag_header()
    assert refusal_at_opening(holder.save(target)) == "R39"


def test_chunk_repeated(holder: Holder, target: Path) -> None:
    end = holder.span(0).stop
    holder.raw[end:end] = holder.raw[holder.span(0)]
    assert refusal_at_opening(holder.save(target)) == "R7"
    holder.set_field("file_length", len(holder.raw))
    holder.set_field("data_length", holder.field("data_length") + MIB)
    assert refusal_at_opening(holder.save(target)) == "V2"
    holder.retag_header()
    assert refusal_at_opening(holder.save(target)) == "R39"


@pytest.mark.parametrize("donor", ["other.vqf", "older.vqf"])
def test_chunk_of_another_file_for_the_same_key(
    holder: Holder, target: Path, model: Path, donor: str
) -> None:
    """Another model's, and that of an older seal of this one, each with its tag."""
    other = Holder(model / donor, ALICE)
    holder.raw[holder.span(0)] = other.raw[other.span(0)]
    holder.raw[holder.tag_span(0)] = other.raw[other.tag_span(0)]
    assert check_of(holder.save(target), "embedding") == "V5"


def test_all_data_of_an_older_seal(holder: Holder, target: Path, model: Path) -> None:
    """Every chunk and every tag of another seal of the very same model, under this header."""
    older = Holder(model / "older.vqf", ALICE)
    tags = slice(holder.table_start, holder.table_start + 32 * len(holder.chunks))
    holder.raw[tags] = older.raw[tags]
    holder.raw[holder.data_offset :] = older.raw[older.data_offset :]
    path = holder.save(target)
    for name in NAMES:
        assert check_of(path, name) == "V5"


def test_tag_table_of_an_older_seal(holder: Holder, target: Path, model: Path) -> None:
    older = Holder(model / "older.vqf", ALICE)
    tags = slice(holder.table_start, holder.table_start + 32 * len(holder.chunks))
    holder.raw[tags] = older.raw[tags]
    assert check_of(holder.save(target), "final") == "V5"


@pytest.mark.parametrize(("extent", "index", "at"), [(0, 0, 0), (0, 2, 77), (1, 0, 500), (3, 1, 3)])
def test_tagged_anew_before_the_load(
    holder: Holder, target: Path, extent: int, index: int, at: int
) -> None:
    """Other weights by a recipient who holds the data key: the signed root refuses them."""
    holder.change_plain(holder.number(extent, index), at, b"\x31\x32")
    assert check_of(holder.save(target), NAMES[extent]) == "V6"


@pytest.mark.parametrize(("extent", "index"), [(0, 1), (3, 0), (4, 0)])
def test_tagged_anew_after_the_load(holder: Holder, target: Path, extent: int, index: int) -> None:
    """The same under an open file whose extents were read: the tags in memory refuse it."""
    holder.save(target)
    with open_vqf(target, ALICE) as file:
        before = {name: file.read_extent(name).tobytes() for name in NAMES}
        number = holder.number(extent, index)
        old = bytes(holder.raw[holder.span(number)])
        holder.change_plain(number, 0, b"\x31\x32\x33\x34")
        for span in (holder.span(number), holder.tag_span(number)):
            with target.open("r+b") as other:
                other.seek(span.start)
                other.write(holder.raw[span])
        memory = bytearray(b"\x55" * file.extent(NAMES[extent]).size_bytes)
        with pytest.raises(WeightsError) as caught:
            file.read_extent(NAMES[extent], memory)
        assert caught.value.check == "V5"
        assert not any(memory)
        for name in set(NAMES) - {NAMES[extent]}:
            assert file.read_extent(name).tobytes() == before[name]
        with target.open("r+b") as other:
            other.seek(holder.span(number).start)
            other.write(old)
        assert file.read_extent(NAMES[extent]).tobytes() == before[NAMES[extent]]
    assert check_of(holder.save(target), NAMES[extent]) == "V6"


def test_new_root_by_a_recipient(holder: Holder, target: Path, model: Path) -> None:
    """He can write a manifest with the new root, but not the signature over its digest."""
    holder.change_plain(0, 0, b"\x31\x32")
    plain = bytearray((model / "plain.vqf").read_bytes())
    start = int.from_bytes(plain[48:56], "little")
    plain[start : start + 2] = b"\x31\x32"
    manifest = cbor.decode(holder.parts.manifest)
    embedding = plain[start : start + 2 * MIB + 4096]
    leaves = [merkle.leaf_hash(bytes(embedding[at : at + MIB])) for at in (0, MIB, 2 * MIB)]
    manifest["extents"][0]["root"] = merkle.root(leaves)
    holder.rewrite_manifest(cbor.encode(manifest), holder.parts.signatures)
    assert refusal_at_opening(holder.save(target)) == "S5"
    holder.rewrite_manifest(cbor.encode(manifest), b"")
    with open_vqf(holder.save(target), ALICE) as file:  # and this is what admission refuses
        verify_all(file)
        assert file.signatures == ()


def boundaries(holder: Holder) -> list[int]:
    """Return where sections and chunks begin."""
    sections = [0, 128, 16_512, 16_544, holder.table_start - 32, holder.table_start]
    sections += [holder.tag_span(len(holder.chunks) - 1).stop]
    return sections + [holder.span(number).start for number in range(len(holder.chunks))]


def test_truncation_at_every_boundary(holder: Holder, target: Path) -> None:
    for length in boundaries(holder):
        target.write_bytes(holder.raw[:length])
        assert refusal_at_opening(target) == ("R1" if length < 128 else "R7")
        if length >= 128:
            cut = bytearray(holder.raw[:length])
            cut[24:32] = length.to_bytes(8, "little")
            target.write_bytes(cut)
            assert refusal_at_opening(target) == "R12"


def test_truncation_under_an_open_file(holder: Holder, target: Path) -> None:
    """Whatever is cut can not be read any more; what is still there can."""
    holder.save(target)
    with open_vqf(target, ALICE) as file:
        for number in reversed(range(len(holder.chunks))):
            os.truncate(target, holder.span(number).start)
            name = NAMES[holder.chunks[number].extent]
            memory = bytearray(b"\x55" * file.extent(name).size_bytes)
            with pytest.raises(WeightsUncheckedError, match="ends at"):
                file.read_extent(name, memory)
            assert not any(memory)
            for extent in range(holder.chunks[number].extent):
                file.read_extent(NAMES[extent])


@pytest.mark.parametrize("tail", [b"\0", b"\x01", bytes(4096), bytes(MIB)])
def test_trailing_bytes(holder: Holder, target: Path, tail: bytes) -> None:
    holder.raw += tail
    assert refusal_at_opening(holder.save(target)) == "R7"
    holder.set_field("file_length", len(holder.raw))
    assert refusal_at_opening(holder.save(target)) == "R12"


def test_a_hostile_writer_beside_the_reader(holder: Holder, target: Path) -> None:
    """Whatever is written while it is read, what comes out is the model or nothing."""
    holder.save(target)
    good = bytes(holder.raw)
    stop = threading.Event()

    def write() -> None:
        descriptor = os.open(target, os.O_RDWR)
        span = holder.span(0)
        while not stop.is_set():
            at = span.start + secrets.randbelow(2 * MIB)
            os.pwrite(descriptor, secrets.token_bytes(64), at)
            os.pwrite(descriptor, good[at : at + 64], at)
        os.close(descriptor)

    with open_vqf(target, ALICE) as file:
        expected = file.read_extent("embedding").tobytes()
        writer = threading.Thread(target=write)
        writer.start()
        checks = set()
        try:
            for attempt in range(400):
                memory = bytearray(len(expected))
                try:
                    file.read_extents([("embedding", memory)], num_threads=1 + attempt % 2)
                except WeightsError as error:
                    checks.add(error.check)
                    memory_is_right = not any(memory)
                else:
                    memory_is_right = memory == expected
                assert memory_is_right
                if checks and attempt > 8:
                    break
        finally:
            stop.set()
            writer.join()
    assert checks == {"V5"}
