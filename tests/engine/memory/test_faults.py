"""A file that fails or changes under a running engine: an error or the right bits, nothing else."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from crypto.errors import UnavailableError
from engine.errors import WeightsError, WeightsUncheckedError
from engine.forward import Engine, Piece
from engine.kv.cache import SequenceCache
from engine.memory.buffers import mapped_pages
from engine.memory.residency import Residency
from engine.memory.verified import VerifiedWeights
from engine.vqf.format import CHUNK_BYTES
from engine.vqf.kept import KeptFile, room_for
from tests.engine.kernels.models import random_ids
from tests.engine.memory import wide
from tests.engine.vqf.conftest import sealed_copy

KIB = 1 << 10
RESIDENCY = Residency("verified-stream", 200 * KIB)
IDS = np.array(random_ids(wide.CONFIG, 12, 5), np.int32)
CHECKOUT = Path(__file__).parents[3]


class Victim:
    """An engine over a file of its own, and a sequence that has begun."""

    def __init__(self, path: Path, residency: Residency) -> None:
        self.path = path
        self.engine: Engine = wide.engine_of(path, residency)
        weights = self.engine._weights
        assert isinstance(weights, VerifiedWeights)
        self.weights = weights
        self.cache: SequenceCache = self.engine.new_cache()
        self.compute(IDS[:8])

    def compute(self, ids: np.ndarray) -> bytes:
        """Go on; return the logits of the last position."""
        logits = self.engine.step([Piece(self.cache, ids, 1)]).logits
        assert np.isfinite(logits).all()
        return logits.tobytes()

    def place(self, extent: str, offset: int = 0) -> int:
        """Return where a byte of an extent is in the file."""
        file = self.weights._kept.file
        return file.preamble.data_offset + file.extent(extent).offset_bytes + offset

    def overwrite(self, offset: int, data: bytes) -> bytes:
        """Write into the file that is open; return what was there."""
        descriptor = os.open(self.path, os.O_RDWR)
        try:
            old = os.pread(descriptor, len(data), offset)
            assert old != data
            assert os.pwrite(descriptor, data, offset) == len(data)
        finally:
            os.close(descriptor)
        return old

    def flip(self, offset: int, bit: int = 3) -> None:
        """Flip one bit of the file that is open."""
        with self.path.open("rb") as stream:
            stream.seek(offset)
            (byte,) = stream.read(1)
        self.overwrite(offset, bytes([byte ^ 1 << bit]))

    def fails(self, kind: type[Exception], match: str) -> None:
        """Require that a step ends with an error, and changes nothing."""
        ran: list[int] = []
        run, logits = self.engine._pool.run, self.engine._graph.logits.copy()
        self.engine._pool.run = lambda *args: ran.append(1) or run(*args)  # type: ignore[method-assign,func-returns-value]
        try:
            with pytest.raises(kind, match=match):
                self.compute(IDS[8:9])
        finally:
            self.engine._pool.run = run  # type: ignore[method-assign]
        assert self.cache.num_positions == 8
        assert len(ran) < len(self.engine._stages)
        assert self.engine._graph.logits.tobytes() == logits.tobytes()


@pytest.fixture(scope="module")
def expected(untied: Path) -> bytes:
    """The logits that the ninth id gives."""
    engine = wide.engine_of(untied / "plain.vqf", Residency())
    cache = engine.new_cache()
    engine.step([Piece(cache, IDS[:8], 1)])
    found = engine.step([Piece(cache, IDS[8:9], 1)]).logits.tobytes()
    cache.release()
    engine.close()
    return found


@pytest.fixture(params=[False, True], ids=["cached", "direct"])
def residency(request: pytest.FixtureRequest) -> Residency:
    return Residency("verified-stream", 200 * KIB, drop_page_cache=request.param)


def begin(path: Path, tmp_path: Path, residency: Residency = RESIDENCY) -> Victim:
    """Start with a copy of a file."""
    return Victim(Path(shutil.copy(path, tmp_path / path.name)), residency)


def refuse() -> None:
    raise UnavailableError("no SM4-GCM")


@pytest.fixture(params=[True, False], ids=["marks", "tags and digests"])
def has_marks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the library has the function for marks; what chunks are compared with differs."""
    if not request.param:
        monkeypatch.setattr("engine.vqf.marks.Sm4Gmac", refuse)
    return bool(request.param)


@pytest.fixture(params=wide.FORMS)
def victim(
    has_marks: bool, request: pytest.FixtureRequest, untied: Path, tmp_path: Path
) -> Iterator[Victim]:
    made = begin(untied / f"{request.param}.vqf", tmp_path)
    assert (made.weights._kept._marks is not None) == has_marks
    yield made
    made.cache.release()
    made.engine.close()


@pytest.fixture
def plain(untied: Path, tmp_path: Path, residency: Residency) -> Iterator[Victim]:
    made = begin(untied / "plain.vqf", tmp_path, residency)
    yield made
    made.cache.release()
    made.engine.close()


def changed(victim: Victim) -> str:
    """What is said of a chunk that is another one now."""
    is_tag = victim.path.stem == "sealed" and victim.weights._kept._marks is None
    return "does not have its tag" if is_tag else "is not the one that was there"


def test_a_flipped_bit_ends_the_step_and_goes_with_the_fault(victim: Victim, expected: bytes):
    rows = victim.weights._rows  # of the embedding only the panels of the ids are read
    starts = {"embedding": rows.tensor.offset_bytes + int(IDS[8]) // 16 * rows.panel_bytes}
    for extent in ("layers.0", "layers.1", "final"):
        tensors = victim.weights._kept.file.extent(extent).tensors
        starts[extent] = next(t.offset_bytes for t in tensors if len(t.shape) > 1)
    for extent, start in starts.items():
        place = victim.place(extent, start + 5)
        drain(victim)
        victim.flip(place)
        for _ in range(2):
            victim.fails(WeightsError, f"{extent} of .*{changed(victim)}")
        victim.flip(place)
    assert victim.compute(IDS[8:9]) == expected


def drain(victim: Victim) -> None:
    """Let what is read ahead arrive, and drop it: so the next step reads all windows."""
    ring = victim.weights._ring
    with ring._changed:
        assert ring._changed.wait_for(lambda: not (ring._wanted or ring._loading), 20)
    ring.begin([])


def test_a_chunk_in_the_place_of_another(victim: Victim, expected: bytes):
    drain(victim)
    first = victim.place("layers.1")
    length = victim.weights._kept.file.extent("layers.1").size_bytes
    assert length < CHUNK_BYTES
    with victim.path.open("rb") as stream:
        stream.seek(victim.place("layers.2"))
        other = stream.read(length)
    old = victim.overwrite(first, other)
    victim.fails(WeightsError, changed(victim))
    victim.overwrite(first, old)
    assert victim.compute(IDS[8:9]) == expected


@pytest.mark.usefixtures("has_marks")
def test_a_chunk_of_an_older_version(untied: Path, tmp_path: Path, expected: bytes):
    """It was sealed for the same key from the same weights: only its data key differs."""
    older = sealed_copy(untied / "signed.vqf", tmp_path / "older.vqf", "alice")
    victim = begin(untied / "sealed.vqf", tmp_path)
    drain(victim)
    with older.open("rb") as stream:
        stream.seek(victim.place("layers.0"))
        data = stream.read(CHUNK_BYTES)
    old = victim.overwrite(victim.place("layers.0"), data)
    victim.fails(WeightsError, changed(victim))
    victim.overwrite(victim.place("layers.0"), old)
    assert victim.compute(IDS[8:9]) == expected
    victim.cache.release()
    victim.engine.close()


def test_a_file_that_became_shorter_and_long_again(plain: Victim, expected: bytes):
    drain(plain)
    whole = plain.path.read_bytes()
    os.truncate(plain.path, plain.place("layers.1", 6000))
    plain.fails(WeightsUncheckedError, "the file ends at|cannot be read")
    os.truncate(plain.path, len(whole))  # with zeros, which are not what was there
    plain.fails(WeightsError, "is not the one that was there")
    cut = plain.place("layers.1", 6000)
    plain.overwrite(cut, whole[cut:])
    assert plain.compute(IDS[8:9]) == expected


def test_it_goes_on_where_the_open_file_stays_what_it_was(
    plain: Victim, expected: bytes, tmp_path: Path
):
    drain(plain)
    with plain.path.open("ab") as stream:
        stream.write(bytes(100_000))
    assert plain.compute(IDS[8:9]) == expected
    other = tmp_path / "other"
    other.write_bytes(bytes(plain.path.stat().st_size))
    other.rename(plain.path)
    plain.compute(IDS[9:10])
    plain.path.unlink()
    plain.compute(IDS[10:11])


def test_short_reads_go_on(plain: Victim, expected: bytes, monkeypatch: pytest.MonkeyPatch):
    drain(plain)
    read, calls = os.preadv, []

    def short(descriptor: int, buffers: list[memoryview], offset: int) -> int:
        calls.append(offset)
        return min(read(descriptor, buffers, offset), 9000)  # as if the rest had not come

    monkeypatch.setattr(os, "preadv", short)
    assert plain.compute(IDS[8:9]) == expected
    assert len(calls) > 50


def test_a_disk_that_fails_in_the_middle_of_a_step(
    plain: Victim, expected: bytes, monkeypatch: pytest.MonkeyPatch
):
    drain(plain)
    read = os.preadv
    bad = plain.place("layers.1")

    def failing(descriptor: int, buffers: list[memoryview], offset: int) -> int:
        if offset >= bad:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read(descriptor, buffers, offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "preadv", failing)
        plain.fails(WeightsUncheckedError, os.strerror(errno.EIO))
        plain.fails(WeightsUncheckedError, os.strerror(errno.EIO))
    assert plain.compute(IDS[8:9]) == expected


def test_what_was_read_ahead_and_failed_is_read_again(
    plain: Victim, expected: bytes, monkeypatch: pytest.MonkeyPatch
):
    """Between two steps a fault may come and go, and nobody was told anything wrong."""
    drain(plain)
    ring = plain.weights._ring

    def failing(*_: object) -> int:
        raise OSError(errno.EIO, "no")

    with monkeypatch.context() as patch:
        patch.setattr(os, "preadv", failing)
        plain.weights.end()
        with ring._changed:
            assert ring._changed.wait_for(lambda: ring._failures, 20)
    assert plain.compute(IDS[8:9]) == expected


@pytest.mark.parametrize("form", wide.FORMS)
@pytest.mark.parametrize("threads", [1, 3])
def test_memory_is_zero_after_a_failed_read(untied: Path, tmp_path: Path, form: str, threads: int):
    path = Path(shutil.copy(untied / f"{form}.vqf", tmp_path / "copy.vqf"))
    with wide.opened(path if form != "sealed" else path.rename(tmp_path / "sealed.vqf")) as file:
        kept = KeptFile(file, num_threads=threads)
        extent = file.extent("embedding")
        offset = file.preamble.data_offset + extent.offset_bytes
        with file.path.open("r+b") as stream:
            stream.seek(offset + extent.size_bytes - 1)
            last = stream.read(1)[0]
            stream.seek(-1, os.SEEK_CUR)
            stream.write(bytes([last ^ 1]))
        room = room_for(0, extent.size_bytes)
        memory = mapped_pages(room + 4096)
        memory[:] = 7
        with pytest.raises(WeightsError):
            kept.read("embedding", 0, extent.size_bytes, memory.data)
        assert not memory.any()
        kept.close()
        with pytest.raises(WeightsUncheckedError, match="is closed"):
            kept.read("embedding", 0, 1, memory.data)


PROGRAM = """
import os, sys
from pathlib import Path
import numpy as np
from engine.forward import Piece
from engine.memory.residency import Residency
from tests.engine.memory import wide
path = Path(sys.argv[1])
engine = wide.engine_of(path, Residency("stream", 1 << 16))
engine.step([Piece(engine.new_cache(), np.array([3], np.int32), 1)])
print("computed", flush=True)
os.truncate(path, int(sys.argv[2]))
engine.step([Piece(engine.new_cache(), np.array([3], np.int32), 1)])
print("computed again", flush=True)
"""


def test_stream_ends_the_process_where_the_file_became_shorter(untied: Path, tmp_path: Path):
    path = shutil.copy(untied / "plain.vqf", tmp_path / "plain.vqf")
    with wide.opened(Path(path)) as file:
        length = file.preamble.data_offset + file.extent("layers.1").offset_bytes
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path), str(length)],
        check=False, capture_output=True, text=True, cwd=CHECKOUT,
    )  # fmt: skip
    assert done.stdout.split("\n")[0] == "computed", done.stderr
    assert "again" not in done.stdout
    assert done.returncode == -signal.SIGBUS


def test_stream_does_not_notice_a_changed_byte(untied: Path, tmp_path: Path, expected: bytes):
    path = Path(shutil.copy(untied / "plain.vqf", tmp_path / "plain.vqf"))
    engine = wide.engine_of(path, Residency("stream", 200 * KIB))
    cache = engine.new_cache()
    engine.step([Piece(cache, IDS[:8], 1)])
    with wide.opened(path) as file:
        extent = file.extent("final")
        start = file.preamble.data_offset + extent.offset_bytes + extent.tensors[-1].offset_bytes
    with path.open("r+b") as stream:
        stream.seek(start)
        (old,) = stream.read(1)
        stream.seek(start)
        stream.write(bytes([old ^ 16]))
    found = engine.step([Piece(cache, IDS[8:9], 1)]).logits.tobytes()
    assert found != expected
    cache.release()
    engine.close()
