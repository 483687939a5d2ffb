"""Single bits of a sealed file: whichever is changed, the file or the extent is refused.

The file is the small one for two keys; it is opened for one of them. Its data key is unwrapped once
and remembered by the cipher text, and so is what manifest and signatures say, by their bytes; all
that a flip changes is computed anew.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from crypto.errors import KeyFileError
from engine.errors import FormatError, WeightsError
from engine.vqf import VqfFile, open_vqf, reader
from tests.engine.vqf import second, vectors
from tests.engine.vqf.vectors import DATA, FOR_KEYS

RAW = (DATA / FOR_KEYS).read_bytes()
FIELDS = {n: int.from_bytes(RAW[at : at + w], "little") for n, (at, w) in second.FIELDS.items()}
IN_USE_END = 132 + int.from_bytes(RAW[128:132], "little")
AREA_END, HEAD_END = second.HEADER_TAG, second.MANIFEST
MANIFEST_END = HEAD_END + FIELDS["manifest_length"] + FIELDS["signatures_length"] + 32
TABLE_END = MANIFEST_END + FIELDS["tag_table_length"]
DATA_START = FIELDS["data_offset"]
NAMES = ("embedding", "layers.0", "final", "tokenizer", "template")
CHUNK_ENDS = (4096, 16_384, 20_480, 24_576, 28_672)


class Flipper:
    """A copy of the file of which one bit at a time is another."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(RAW)
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR)

    def close(self) -> None:
        assert self.path.read_bytes() == RAW
        os.close(self._descriptor)

    def bits(self, start: int, end: int) -> Iterator[int]:
        """Flip every bit of these bytes, each while it is yielded."""
        for bit in range(8 * start, 8 * end):
            yield from self.one(bit)

    def one(self, bit: int) -> Iterator[int]:
        at = bit // 8
        os.pwrite(self._descriptor, bytes([RAW[at] ^ 1 << bit % 8]), at)
        yield bit
        os.pwrite(self._descriptor, RAW[at : at + 1], at)


@pytest.fixture
def flipper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Flipper]:
    monkeypatch.setattr(reader, "parse_manifest", cache(reader.parse_manifest))
    monkeypatch.setattr(reader, "parse_signatures", cache(reader.parse_signatures))
    made = Flipper(tmp_path / "flipped.vqf")
    with open_vqf(made.path, vectors.unlock()) as file:
        for name in NAMES:
            file.read_extent(name)
    yield made
    made.close()


def opening(path: Path) -> str:
    """Return what refuses the file; an error of another kind passes through."""
    try:
        open_vqf(path, vectors.unlock()).close()
    except FormatError as error:
        return error.rule
    except WeightsError as error:
        return error.check or ""
    except KeyFileError as error:
        return error.reason
    return "opened"


def reading(file: VqfFile, name: str, memory: bytearray) -> str:
    """Return what refuses an extent, after a look at what is in the caller's memory."""
    memory[:] = b"\x77" * len(memory)
    try:
        file.read_extent(name, memory)
    except WeightsError as error:
        assert not any(memory), "bytes that did not verify were left in the caller's memory"
        return error.check or ""
    return "read"


def chosen(length: int) -> Iterator[int]:
    """Yield a random bit of every 64 bytes; the seed is in the output of a test that fails."""
    seed = secrets.token_bytes(16)
    print("seed", seed.hex())
    draws = hashlib.shake_128(seed).digest(2 * (length // 64))
    for piece in range(length // 64):
        yield 512 * piece + int.from_bytes(draws[2 * piece : 2 * piece + 2], "little") % 512


def test_every_bit_of_the_preamble(flipper: Flipper) -> None:
    found = Counter(opening(flipper.path) for _ in flipper.bits(0, 128))
    # the identity of a sealed file and its counter are under the header tag, all else has a rule
    assert found.pop("V2") >= 8 * (32 + 16)
    assert set(found) == {f"R{number}" for number in range(2, 13)}
    assert found["R2"] == 64


def test_every_bit_of_the_recipients_in_use(flipper: Flipper) -> None:
    unwrapper = vectors.remembering("alice")
    before = unwrapper.num_computed
    found = Counter(opening(flipper.path) for _ in flipper.bits(128, IN_USE_END))
    assert set(found) == {"E1", "E2", "recipient", "V1", "V2"}
    # one wrapped key was tried to unwrap with every bit of it changed, but for the 04 in front
    assert found["V1"] == 8 * 128 == unwrapper.num_computed - before
    assert found["V2"] >= 8 * 128


def test_every_bit_of_the_header_tag(flipper: Flipper) -> None:
    found = Counter(opening(flipper.path) for _ in flipper.bits(AREA_END, HEAD_END))
    assert found == {"V2": 8 * 32}


@pytest.mark.slow
@pytest.mark.ci
def test_every_bit_of_manifest_signatures_and_tag(flipper: Flipper) -> None:
    found = Counter(opening(flipper.path) for _ in flipper.bits(HEAD_END, MANIFEST_END))
    assert found == {"V3": 8 * (MANIFEST_END - HEAD_END)}


def test_every_bit_of_the_tag_table(flipper: Flipper) -> None:
    """The file opens, and the one chunk whose tag it is cannot be read."""
    memories = {name: bytearray(RAW[: CHUNK_ENDS[0]]) for name in NAMES}
    memories["layers.0"] = bytearray(12_288)
    for bit in flipper.bits(MANIFEST_END, TABLE_END):
        name = NAMES[(bit // 8 - MANIFEST_END) // 32]
        with open_vqf(flipper.path, vectors.unlock()) as file:
            assert reading(file, name, memories[name]) == "V5"


@pytest.mark.slow
@pytest.mark.ci
def test_every_bit_of_the_filling_behind_the_table(flipper: Flipper) -> None:
    found = Counter(opening(flipper.path) for _ in flipper.bits(TABLE_END, DATA_START))
    assert found == {"E5": 8 * (DATA_START - TABLE_END)}


@pytest.mark.slow
@pytest.mark.ci
def test_every_bit_of_a_chunk(flipper: Flipper) -> None:
    with open_vqf(flipper.path, vectors.unlock()) as file:
        memory = bytearray(4096)
        start = DATA_START + CHUNK_ENDS[2]
        found = Counter(
            reading(file, "tokenizer", memory) for _ in flipper.bits(start, start + 4096)
        )
    assert found == {"V5": 8 * 4096}


def test_a_bit_in_every_64_bytes_of_the_unused_recipients(flipper: Flipper) -> None:
    found: Counter[str] = Counter()
    for bit in chosen(AREA_END - IN_USE_END):
        found.update(opening(flipper.path) for _ in flipper.one(8 * IN_USE_END + bit))
    assert found == {"E1": (AREA_END - IN_USE_END) // 64}


def test_a_bit_in_every_64_bytes_of_the_data(flipper: Flipper) -> None:
    seen = set()
    with open_vqf(flipper.path, vectors.unlock()) as file:
        for bit in chosen(FIELDS["data_length"]):
            name = NAMES[sum(bit // 8 >= end for end in CHUNK_ENDS)]
            memory = bytearray(file.extent(name).size_bytes)
            for _ in flipper.one(8 * DATA_START + bit):
                assert reading(file, name, memory) == "V5"
            seen.add(name)
    assert seen == set(NAMES)
