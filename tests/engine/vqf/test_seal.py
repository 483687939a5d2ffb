"""Sealing: the same model behind a new key each time, all or nothing, whatever computes it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from crypto.errors import KeyFileError, WriteError
from engine.errors import ConfigError, WeightsError, WeightsUncheckedError
from engine.vqf import open_vqf
from engine.vqf.seal import seal_vqf
from engine.vqf.unlock import Unlock
from engine.vqf.verify import verify_all
from engine.vqf.wrap import SealFor
from tests.engine.vqf import chunky, vectors
from tests.engine.vqf.chunky import MIB, StoppedError, contents

ALICE = vectors.unlock("alice")
FOR_ALICE = SealFor((vectors.key("alice").public_key,))
# where the last chunk of the embedding is whole, one page short, one page long; and in the middle
PANEL_COUNTS = [1, 4, 1020, 1024, 1028, 1500, 2044, 2048, 2049, 3072, 3073]
TOKENIZER_LENGTHS = [1, 4096, MIB - 4096, MIB - 1, MIB, MIB + 1, 2 * MIB, 2 * MIB + 4097]


@dataclass(frozen=True)
class Recording:
    """Recipients that remember under which data keys and file ids something was sealed."""

    made: list[tuple[bytes, bytes]]

    def wrap(self, data_key: bytes, file_id: bytes) -> Any:
        self.made.append((data_key, file_id))
        return FOR_ALICE.wrap(data_key, file_id)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=5)
@given(
    panels=st.sampled_from(PANEL_COUNTS) | st.integers(1, 3100),
    tokenizer=st.sampled_from(TOKENIZER_LENGTHS) | st.integers(1, 2 * MIB),
    threads=st.integers(1, 3),
)
@example(panels=1024, tokenizer=MIB, threads=1)
@example(panels=1028, tokenizer=MIB + 1, threads=2)
@example(panels=3072, tokenizer=1, threads=3)
def test_sealed_is_the_same_model(
    tmp_path: Path, panels: int, tokenizer: int, threads: int
) -> None:
    plain, sealed = tmp_path / "plain.vqf", tmp_path / "sealed.vqf"
    for path in (plain, sealed):
        path.unlink(missing_ok=True)
    chunky.write(plain, panels, tokenizer)
    with open_vqf(plain) as file:
        expected = contents(file)
        calls: list[tuple[int, int]] = []
        seal_vqf(
            file,
            sealed,
            FOR_ALICE,
            num_threads=threads,
            progress=lambda done, total: calls.append((done, total)),
        )
        # once for the source, once for what is sealed
        assert calls[-1] == (2 * file.preamble.data_length, 2 * file.preamble.data_length)
        assert calls == sorted(calls)
        with open_vqf(sealed, ALICE) as other:
            assert other.model_digest == file.model_digest
            assert other.manifest == file.manifest
            assert other.preamble.data_length == file.preamble.data_length
            assert contents(other, threads) == expected
            calls.clear()
            verify_all(
                other,
                num_threads=threads,
                progress=lambda done, total: calls.append((done, total)),
            )
            assert calls[-1] == (file.preamble.data_length, file.preamble.data_length)
            assert calls == sorted(calls)


def test_two_seals_have_nothing_in_common(model: Path) -> None:
    first, second = ((model / f"{name}.vqf").read_bytes() for name in ("older", "sealed"))
    plain = (model / "signed.vqf").read_bytes()
    assert len(first) == len(second)
    assert first[96:128] != second[96:128]
    assert first[80:96] != second[80:96]
    with open_vqf(model / "older.vqf", ALICE) as a, open_vqf(model / "sealed.vqf", ALICE) as b:
        assert a.seal is not None
        assert b.seal is not None
        assert a.seal.data_key != b.seal.data_key
        tags = [seal.tags[i : i + 32] for seal in (a.seal, b.seal) for i in range(0, 256, 32)]
        assert len(set(tags)) == len(tags) == 16
        offset = a.preamble.data_offset
        keys = [key for seal in (a.seal, b.seal) for key in seal.keys[1:]]
        assert len({key[:16] for key in keys}) == 8
        length = b.preamble.data_length
    start = int.from_bytes(plain[48:56], "little")
    # no block of the cipher is where it was: neither between the two, nor to the plain text
    for other, at in ((first, offset), (plain, start)):
        same = sum(
            second[offset + i : offset + i + 16] == other[at + i : at + i + 16]
            for i in range(0, length, 16)
        )
        assert same == 0


def test_no_block_of_the_key_stream_is_used_twice(model: Path) -> None:
    """Two places with one stream would show the difference of their plain texts."""
    plain, sealed = ((model / f"{name}.vqf").read_bytes() for name in ("plain", "sealed"))
    start, offset, length = (
        int.from_bytes(raw[at : at + 8], "little")
        for raw, at in ((plain, 48), (sealed, 48), (sealed, 56))
    )
    data, text = plain[start : start + length], sealed[offset : offset + length]
    stream = (int.from_bytes(data, "big") ^ int.from_bytes(text, "big")).to_bytes(length, "big")
    blocks = {stream[i : i + 16] for i in range(0, length, 16)}
    assert len(blocks) == length // 16


def test_no_plain_weights_in_the_output(model: Path) -> None:
    plain = (model / "plain.vqf").read_bytes()
    assert plain.count(chunky.PATTERN) == 1
    for name in ("sealed.vqf", "older.vqf"):
        raw = (model / name).read_bytes()
        for at in range(0, 64, 8):
            assert chunky.PATTERN[at : at + 8] not in raw
        assert b"{% for" not in raw
        assert bytes(64) not in raw[int.from_bytes(raw[48:56], "little") :]


@pytest.mark.parametrize("threads", [1, 2])
def test_interrupted(model: Path, tmp_path: Path, threads: int) -> None:
    """Nothing is left, and what follows has another key: no stream is ever used twice."""
    recording = Recording([])
    target = tmp_path / "sealed.vqf"

    def interrupt(done: int, _total: int) -> None:
        if done > MIB:
            raise StoppedError

    with open_vqf(model / "plain.vqf") as file:
        with pytest.raises(StoppedError):
            seal_vqf(file, target, recording, num_threads=threads, progress=interrupt)
        assert list(tmp_path.iterdir()) == []
        seal_vqf(file, target, recording, num_threads=threads)
    (key, file_id), (next_key, next_id) = recording.made
    assert key != next_key
    assert file_id != next_id
    with open_vqf(target, ALICE) as sealed:
        assert sealed.seal is not None
        assert sealed.seal.data_key == next_key
        verify_all(sealed)


def test_interrupted_over_an_old_file(model: Path, tmp_path: Path) -> None:
    target = tmp_path / "sealed.vqf"
    target.write_bytes(b"what was there before")

    def interrupt(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with open_vqf(model / "plain.vqf") as file:
        with pytest.raises(WriteError, match="exists already"):
            seal_vqf(file, target, FOR_ALICE)
        with pytest.raises(KeyboardInterrupt):
            seal_vqf(file, target, FOR_ALICE, force=True, progress=interrupt)
    assert target.read_bytes() == b"what was there before"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("source", "at", "check"), [("plain", MIB, "V6"), ("signed", -MIB, "V6"), ("older", MIB, "V5")]
)
@pytest.mark.parametrize("threads", [1, 2])
def test_damaged_source(
    model: Path, tmp_path: Path, source: str, at: int, check: str, threads: int
) -> None:
    """What does not verify is not sealed, where it would get tags that are right."""
    raw = bytearray((model / f"{source}.vqf").read_bytes())
    raw[at] ^= 1
    (tmp_path / "damaged.vqf").write_bytes(raw)
    with open_vqf(tmp_path / "damaged.vqf", ALICE) as file:
        with pytest.raises(WeightsError) as caught:
            seal_vqf(file, tmp_path / "sealed.vqf", FOR_ALICE, num_threads=threads)
        assert caught.value.check == check
    assert [path.name for path in tmp_path.iterdir()] == ["damaged.vqf"]


def test_source_that_becomes_shorter(model: Path, tmp_path: Path) -> None:
    copy = tmp_path / "plain.vqf"
    copy.write_bytes((model / "plain.vqf").read_bytes())
    with open_vqf(copy) as file:
        os.truncate(copy, 2 * MIB)
        with pytest.raises(WeightsUncheckedError):
            seal_vqf(file, tmp_path / "sealed.vqf", FOR_ALICE, num_threads=2)
    assert [path.name for path in tmp_path.iterdir()] == ["plain.vqf"]


def test_no_recipients(model: Path, tmp_path: Path) -> None:
    with open_vqf(model / "plain.vqf") as file:
        both = SealFor((vectors.key("bob").public_key,), passphrase=b"x")
        for recipients in (SealFor(), both):
            with pytest.raises(ConfigError):
                seal_vqf(file, tmp_path / "sealed.vqf", recipients)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("quick_derivation")
def test_limits_of_a_passphrase(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "sealed.vqf"
    with open_vqf(model / "plain.vqf") as file:
        # HMAC fills short keys with zeros, so a zero at the end would not count
        for wrong in (b"", b"x" * 1025, b"short\0", b"\0", b"two\0words"):
            with pytest.raises(KeyFileError) as caught:
                seal_vqf(file, path, SealFor(passphrase=wrong))
            assert caught.value.reason == "passphrase"
        assert not path.exists()
        for right in (b"\1", (bytes(range(1, 256)) * 5)[:1024]):
            seal_vqf(file, path, SealFor(passphrase=right), force=True)
            open_vqf(path, Unlock(passphrase=right)).close()
            for other in (right[:-1] + b"\2", b"x" * 1024):
                with pytest.raises(WeightsError) as refused:
                    open_vqf(path, Unlock(passphrase=other))
                assert refused.value.check == "V1"
            for none in (b"", right[:1023] + b"\0", b"x" * 1025):
                with pytest.raises(KeyFileError) as caught:
                    open_vqf(path, Unlock(passphrase=none))
                assert caught.value.reason == "passphrase"


@pytest.mark.parametrize("iterations", [0, 599_999, 10_000_001])
def test_iterations_that_no_reader_accepts(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, iterations: int
) -> None:
    """The setting is refused before the time for it is spent."""

    def derived(*_arguments: object) -> bytes:
        pytest.fail("PBKDF2 was called")

    monkeypatch.setattr("engine.vqf.wrap.pbkdf2_hmac_sm3", derived)
    recipients = SealFor(passphrase=b"x", iterations=iterations)
    with open_vqf(model / "plain.vqf") as file, pytest.raises(ConfigError):
        seal_vqf(file, tmp_path / "sealed.vqf", recipients)
    assert list(tmp_path.iterdir()) == []


def test_sealed_anew_has_a_new_key(model: Path, tmp_path: Path) -> None:
    """From sealed to sealed, in place: what a removed recipient kept is of no use."""
    path = tmp_path / "sealed.vqf"
    path.write_bytes((model / "sealed.vqf").read_bytes())
    with open_vqf(path, ALICE) as old:
        seal_vqf(old, path, FOR_ALICE, force=True, num_threads=2)
        with open_vqf(path, ALICE) as new:
            assert new.seal is not None
            assert old.seal is not None
            assert new.seal.data_key != old.seal.data_key
            assert new.model_digest == old.model_digest
            assert [s.encoded for s in new.signatures] == [s.encoded for s in old.signatures]
            assert contents(new, 2) == contents(old, 2)
