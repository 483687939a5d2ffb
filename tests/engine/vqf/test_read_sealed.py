"""Reading sealed files with several threads, failures, and either way to compute."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from crypto.bulk import PortableBulk
from crypto.kernels.load import load_bulk
from engine.errors import WeightsError
from engine.vqf import open_vqf
from engine.vqf.seal import seal_vqf
from engine.vqf.verify import verify_all
from engine.vqf.wrap import SealFor
from tests.engine.vqf import chunky, vectors
from tests.engine.vqf.chunky import MIB, NAMES, StoppedError, contents

ALICE = vectors.unlock("alice")
FOR_ALICE = SealFor((vectors.key("alice").public_key,))


class Failing(PortableBulk):
    """Decrypts, but for one chunk."""

    def __init__(self) -> None:
        self.calls = 0
        self._lock = threading.Lock()

    def sm4_ctr_sm3_many(self, *arguments: Any) -> list[bytes]:
        with self._lock:
            self.calls += 1
            fails = self.calls == 3
        if fails:
            raise StoppedError
        return super().sm4_ctr_sm3_many(*arguments)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_failure_of_one_thread(model: Path, threads: int) -> None:
    """It reaches the caller, and no buffer keeps what the others had decrypted."""
    with open_vqf(model / "sealed.vqf", ALICE, bulk=Failing()) as file:
        wanted = [(name, bytearray(b"\x66" * file.extent(name).size_bytes)) for name in NAMES]
        with pytest.raises(StoppedError):
            file.read_extents(wanted, num_threads=threads)
        for _, memory in wanted:
            assert not any(memory)
        assert contents(file, threads)[0][256:320] == chunky.PATTERN


def test_progress_that_fails(model: Path) -> None:
    """Whoever is told may say no; that too leaves no plain text behind."""
    with open_vqf(model / "sealed.vqf", ALICE) as file:
        memory = bytearray(file.extent("embedding").size_bytes)

        def refuse(_done: int, _total: int) -> None:
            raise StoppedError

        for threads in (1, 2):
            with pytest.raises(StoppedError):
                file.read_extents([("embedding", memory)], num_threads=threads, progress=refuse)
            assert not any(memory)


def test_reads_of_several_threads(model: Path) -> None:
    """Callers share the file; each has memory of its own."""
    with open_vqf(model / "plain.vqf") as file:
        expected = contents(file)
    found: list[list[bytes]] = []
    with open_vqf(model / "sealed.vqf", ALICE) as file:
        threads = [
            threading.Thread(target=lambda: found.append(contents(file, 2))) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [expected] * 4


def test_a_bad_chunk_among_good_ones(model: Path, tmp_path: Path) -> None:
    """All extents that were asked for together are gone when one of them is bad."""
    raw = bytearray((model / "sealed.vqf").read_bytes())
    raw[-1] ^= 1
    (tmp_path / "bad.vqf").write_bytes(raw)
    with open_vqf(tmp_path / "bad.vqf", ALICE) as file:
        for threads in (1, 3):
            wanted = [(name, bytearray(file.extent(name).size_bytes)) for name in NAMES]
            with pytest.raises(WeightsError) as caught:
                file.read_extents(wanted, num_threads=threads)
            assert caught.value.check == "V5"
            assert not any(any(memory) for _, memory in wanted)


def test_lanes_and_libraries_agree(model: Path, tmp_path: Path) -> None:
    """What is sealed with one is opened with the other, plain text and roots alike."""
    lanes = load_bulk()
    with open_vqf(model / "signed.vqf", bulk=lanes) as file:
        expected = contents(file, 2)
        seal_vqf(file, tmp_path / "lanes.vqf", FOR_ALICE, num_threads=2)
    with open_vqf(tmp_path / "lanes.vqf", ALICE) as file:
        assert contents(file, 2) == expected
        verify_all(file)
    with open_vqf(model / "sealed.vqf", ALICE, bulk=lanes) as file:
        assert contents(file) == contents(file, 3) == expected
        verify_all(file, num_threads=2)
    raw = bytearray((model / "sealed.vqf").read_bytes())
    raw[-4096 - MIB] ^= 1
    (tmp_path / "bad.vqf").write_bytes(raw)
    with open_vqf(tmp_path / "bad.vqf", ALICE, bulk=lanes) as file:
        memory = bytearray(file.extent("tokenizer").size_bytes)
        with pytest.raises(WeightsError) as caught:
            file.read_extent("tokenizer", memory)
        assert caught.value.check == "V5"
        assert not any(memory)
