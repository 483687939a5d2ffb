"""Opening and reading: what is returned, and what happens when the file is not what it was."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import engine.vqf
from crypto.errors import KeyFileError, SelfTestError
from engine.errors import FormatError, WeightsError, WeightsUncheckedError
from engine.vqf import VqfFile, open_vqf, outline
from engine.vqf.panels import unpack
from engine.vqf.preamble import parse_preamble
from engine.vqf.wrap import SealFor
from tests.engine.vqf import tiny, vectors
from tests.engine.vqf.damage import damaged

DATA = Path(__file__).parents[2] / "data" / "vqf"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    copy = tmp_path / "tiny.vqf"
    copy.write_bytes((DATA / "tiny.vqf").read_bytes())
    return copy


def test_what_was_written_is_read(path: Path) -> None:
    with open_vqf(path) as file:
        assert file.manifest.config == tiny.CONFIG
        assert file.manifest.tokenizer == tiny.TOKENIZER
        assert [extent.name for extent in file.manifest.extents] == [e.name for e in tiny.PLAN]
        for plan in tiny.PLAN:
            extent = file.extent(plan.name)
            data = file.read_extent(plan.name)
            assert data.shape == (extent.size_bytes,)
            assert data.ctypes.data % 4096 == 0
            for spec, expected in zip(plan.tensors, tiny.source(plan.name), strict=False):
                tensor = file.tensor(spec.name)
                assert (tensor.kind, tensor.shape, tensor.extent) == (*spec[1:], plan.name)
                assert tensor.offset_bytes % 64 == 0
                found = data[tensor.offset_bytes : tensor.offset_bytes + tensor.length_bytes]
                assert found.tobytes() == expected.tobytes()
        assert file.read_bytes("tokenizer") == tiny.TOKENIZER_JSON
        assert file.read_bytes("template") == tiny.TEMPLATE
        assert file.has_extent("template")
        assert not file.has_extent("notes")
        with pytest.raises(KeyError):
            file.extent("notes")
        with pytest.raises(KeyError):
            file.tensor("layers.0.q_bias")


def test_tensor_bytes_are_panels(path: Path) -> None:
    with open_vqf(path) as file:
        tensor = file.tensor("head")
        data = file.read_extent("final")[tensor.offset_bytes :][: tensor.length_bytes]
        fields = unpack(tensor.kind, data, *tensor.shape)
        assert fields["w"].tobytes() == tiny.fields_of("head", "BF16", 20, 32)["w"].tobytes()


def test_caller_may_bring_the_memory(path: Path) -> None:
    with open_vqf(path) as file:
        size = file.extent("layers.0").size_bytes
        memory = bytearray(size)
        array = file.read_extent("layers.0", memory)
        assert memory == file.read_extent("layers.0").tobytes()
        array[0] ^= 1
        assert memory[0] == array[0]
        for wrong in (bytearray(size - 1), bytearray(size + 1), bytes(size)):
            with pytest.raises(ValueError, match=str(size)):
                file.read_extent("layers.0", wrong)
        with pytest.raises(ValueError, match=str(size)):
            file.read_extent("layers.0", np.zeros(2 * size, np.uint8)[::2])


@pytest.mark.parametrize("extent_name", ["embedding", "layers.0", "final", "tokenizer", "template"])
def test_any_changed_bit_is_seen(path: Path, extent_name: str) -> None:
    with open_vqf(path) as file:
        extent = file.extent(extent_name)
        start = parse_preamble(path.read_bytes()[:128], 32768).data_offset + extent.offset_bytes
    original = path.read_bytes()
    for at in (start, start + extent.length_bytes - 1, start + extent.size_bytes - 1):
        changed = bytearray(original)
        changed[at] ^= 0x10
        path.write_bytes(changed)
        with open_vqf(path) as file:
            memory = bytearray(extent.size_bytes)
            with pytest.raises(WeightsError, match=extent_name):
                file.read_extent(extent_name, memory)
            assert not any(memory), "bytes that did not verify were left in the caller's memory"


def test_changes_after_opening(path: Path) -> None:
    """Bytes that change under an open file are refused; what was read before stays as it was."""
    with open_vqf(path) as file:
        before = file.read_extent("layers.0")
        copy = before.copy()
        with path.open("r+b") as other:
            other.seek(8192)
            other.write(bytes(100))
        assert np.array_equal(before, copy)
        with pytest.raises(WeightsError):
            file.read_extent("layers.0")
        assert file.read_bytes("tokenizer") == tiny.TOKENIZER_JSON


def test_truncation_after_opening(path: Path) -> None:
    with open_vqf(path) as file:
        os.truncate(path, 10_000)
        with pytest.raises(WeightsUncheckedError, match="ends at 10000"):
            file.read_extent("layers.0")
        assert file.read_extent("embedding").size == 4096


def test_replacement_after_opening(path: Path) -> None:
    """A file put in the place of the open one is another file."""
    with open_vqf(path) as file:
        other = path.with_name("other.vqf")
        other.write_bytes(damaged(path.read_bytes(), [{"data": "embedding", "at": 0, "hex": "99"}]))
        other.replace(path)
        assert file.read_extent("embedding").size == 4096


def test_closed_file(path: Path) -> None:
    file = open_vqf(path)
    file.close()
    file.close()
    with pytest.raises(WeightsUncheckedError):
        file.read_extent("embedding")


def test_descriptor_is_closed_after_refusal(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(10):
        with pytest.raises(FormatError):
            open_vqf(path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_several_threads(path: Path) -> None:
    with open_vqf(path) as file, ThreadPoolExecutor(4) as pool:
        names = [extent.name for extent in file.manifest.extents] * 20
        expected = {name: file.read_extent(name).tobytes() for name in set(names)}
        for name, data in zip(names, pool.map(file.read_extent, names), strict=True):
            assert data.tobytes() == expected[name]


@pytest.mark.parametrize("name", vectors.PROTECTED)
def test_protected_forms_are_measured_too(path: Path, name: str) -> None:
    path.write_bytes((DATA / name).read_bytes() + b"\0")
    with pytest.raises(FormatError) as caught:
        open_vqf(path)
    assert caught.value.rule == "R7"


@pytest.mark.parametrize("name", vectors.PROTECTED)
def test_self_tests_come_first(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Nothing protected is opened by cryptography that computes wrong results."""

    def fail() -> None:
        raise SelfTestError("SM3")

    monkeypatch.setattr("engine.vqf.reader.ensure_self_tested", fail)
    with pytest.raises(SelfTestError):
        open_vqf(DATA / name, vectors.unlock(vectors.OPENS[name]))
    outline(DATA / name)
    open_vqf(DATA / vectors.PLAIN).close()


@pytest.mark.parametrize("name", [vectors.PLAIN, vectors.FOR_KEYS])
def test_an_extent_twice(name: str) -> None:
    """Only one of two buffers could be compared with the digests, so neither is filled."""
    with open_vqf(DATA / name, vectors.unlock()) as file:
        first, second = bytearray(4096), bytearray(4096)
        with pytest.raises(ValueError, match="twice"):
            file.read_extents([("embedding", first), ("embedding", second)])
        assert not any(first)
        assert not any(second)


@pytest.mark.parametrize("name", vectors.PROTECTED)
def test_descriptors_of_protected_forms(tmp_path: Path, name: str) -> None:
    """They are closed after every kind of refusal, and after use."""
    raw = (DATA / name).read_bytes()
    copy = tmp_path / name
    before = len(list(Path("/proc/self/fd").iterdir()))
    for at in (12, 100, 132, 16_530, 17_000, 33_000, len(raw) - 1):
        changed = bytearray(raw)
        changed[at] ^= 0xFF
        copy.write_bytes(changed)
        with (
            contextlib.suppress(FormatError, WeightsError, KeyFileError),
            open_vqf(copy, vectors.unlock("alice")) as file,
        ):
            file.read_bytes("template")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_repr_has_no_secret() -> None:
    """Neither the file nor what unlocks it shows a key or passphrase to whoever prints it."""
    unlock = vectors.unlock("passphrase")
    assert vectors.passphrase().decode() not in repr(unlock)
    with open_vqf(DATA / vectors.FOR_KEYS, vectors.unlock()) as file:
        shown = repr((file, file.seal, file.seal and file.seal.keys, SealFor(passphrase=b"secret")))
        known = vectors.of(vectors.FOR_KEYS)
        for secret in (known["data_key"], *known["derived"].values()):
            assert secret not in shown
            assert repr(bytes.fromhex(secret))[2:-1] not in shown
        assert "secret" not in shown


def test_things_that_are_no_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_vqf(tmp_path / "absent.vqf")
    pipe = tmp_path / "pipe.vqf"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path, Path("/dev/zero")):
        with pytest.raises(FormatError) as caught:
            open_vqf(path)
        assert caught.value.rule == "R1"


def test_nothing_is_allocated_for_a_lie(path: Path) -> None:
    """A file that announces a terabyte, and one that has it as a hole, cost no memory."""
    terabyte = 1 << 40
    edits = [
        {"set": ["extents", 3, "length"], "to": 60 << 20},
        {"set": ["extents", 4, "offset"], "to": 20480 + (60 << 20)},
    ]
    lie = damaged(path.read_bytes(), edits)
    path.write_bytes(lie)
    hole = path.with_name("hole.vqf")
    hole.write_bytes(lie)
    os.truncate(hole, terabyte)
    program = (
        "import sys\n"
        "def peak_kib():\n"
        "    with open('/proc/self/status', encoding='ascii') as status:\n"
        "        return [int(s.split()[1]) for s in status if s.startswith('VmHWM:')][0]\n"
        "from engine.errors import FormatError\n"
        "from engine.vqf import open_vqf\n"
        "before = peak_kib()\n"
        "for path in sys.argv[1:]:\n"
        "    try:\n"
        "        open_vqf(path)\n"
        "    except FormatError as error:\n"
        "        print(error.rule)\n"
        "print(peak_kib() - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path), str(hole)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(engine.vqf.__file__).parents[2],
    )
    first, second, grown_kib = done.stdout.split()
    assert (first, second) == ("R39", "R7")
    assert int(grown_kib) < 20 << 10


def test_reader_is_a_value_for_others(path: Path) -> None:
    with open_vqf(path) as file:
        assert isinstance(file, VqfFile)
        assert file.path == path
        assert file.model_digest.hex() in (DATA / "digests.json").read_text(encoding="utf-8")
