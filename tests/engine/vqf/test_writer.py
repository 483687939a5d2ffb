"""Writing: all or nothing, and the same bytes every time."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import engine.vqf
from crypto.atomic import AtomicFile
from crypto.errors import WriteError
from engine.errors import ConversionError
from engine.vqf import ExtentPlan, TensorSpec, open_vqf, write_vqf
from tests.engine.vqf import tiny

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECKOUT = Path(engine.vqf.__file__).parents[2]


def write_tiny(path: Path, **options: Any) -> bytes:
    return write_vqf(path, tiny.CONFIG, tiny.TOKENIZER, tiny.PLAN, tiny.source, **options)


def test_same_input_same_bytes(tmp_path: Path) -> None:
    first = write_tiny(tmp_path / "a.vqf")
    second = write_tiny(tmp_path / "b.vqf")
    assert first == second
    assert (tmp_path / "a.vqf").read_bytes() == (tmp_path / "b.vqf").read_bytes()
    with open_vqf(tmp_path / "a.vqf") as file:
        assert file.model_digest == first


def test_only_the_target_is_left(tmp_path: Path) -> None:
    write_tiny(tmp_path / "a.vqf")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.vqf"]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o027, 0o640)])
def test_mode_follows_the_umask(tmp_path: Path, mask: int, mode: int) -> None:
    old = os.umask(mask)
    try:
        write_tiny(tmp_path / "a.vqf")
        assert stat.S_IMODE((tmp_path / "a.vqf").stat().st_mode) == mode
        assert os.umask(mask) == mask
    finally:
        os.umask(old)


def test_nobody_else_reads_the_unfinished_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AtomicFile, "_without_name", lambda _self: -1)
    seen = []

    def look(_done: int, _total: int) -> None:
        (entry,) = tmp_path.iterdir()
        seen.append((entry.name.endswith(".partial"), stat.S_IMODE(entry.stat().st_mode)))

    write_tiny(tmp_path / "a.vqf", progress=look)
    assert set(seen) == {(True, 0o600)}


def test_progress_ascends_to_the_end(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    write_tiny(tmp_path / "a.vqf", progress=lambda done, total: calls.append((done, total)))
    assert [done for done, _ in calls] == sorted({done for done, _ in calls})
    assert {total for _, total in calls} == {28672}
    assert calls[-1] == (28672, 28672)


@pytest.mark.parametrize("wide", [True, False], ids=["one MiB at a time", "one byte at a time"])
def test_short_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wide: bool) -> None:
    """A system call that takes less than it was given loses nothing."""
    real = os.pwrite
    step = 1000 if wide else 7
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, data[:step], at))
    digest = write_tiny(tmp_path / "a.vqf")
    monkeypatch.undo()
    assert digest == write_tiny(tmp_path / "b.vqf")
    assert (tmp_path / "a.vqf").read_bytes() == (tmp_path / "b.vqf").read_bytes()


def test_existing_target_needs_force(tmp_path: Path) -> None:
    path = tmp_path / "a.vqf"
    path.write_bytes(b"something else")
    called = []
    with pytest.raises(WriteError, match="exists already"):
        write_vqf(path, tiny.CONFIG, tiny.TOKENIZER, tiny.PLAN, called.append)
    assert path.read_bytes() == b"something else"
    assert not called, "the source was asked before the target was looked at"
    write_tiny(path, force=True)
    with open_vqf(path) as file:
        assert file.read_bytes("template") == tiny.TEMPLATE


def test_target_that_appears_meanwhile_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.vqf"

    def appear(done: int, total: int) -> None:
        if done == total:
            path.write_bytes(b"somebody else's")

    with pytest.raises(WriteError, match="exists already"):
        write_tiny(path, progress=appear)
    assert path.read_bytes() == b"somebody else's"
    assert len(list(tmp_path.iterdir())) == 1


def test_link_refuses_what_appears_at_the_last_moment(tmp_path: Path) -> None:
    """Between the last look at the target and its naming no other file can be lost."""
    path = tmp_path / "a.vqf"

    class Late(AtomicFile):
        def _take_name(self) -> None:
            path.write_bytes(b"somebody else's")
            super()._take_name()

    with Late(path, force=False) as file:
        file.create()
        with pytest.raises(WriteError, match="exists already"):
            file.commit()
    assert path.read_bytes() == b"somebody else's"
    assert len(list(tmp_path.iterdir())) == 1


def test_file_system_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object, **_options: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(AtomicFile, "_without_name", lambda _self: -1)
    write_tiny(tmp_path / "a.vqf")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.vqf"]


def test_force_replaces_regular_files_only(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    for target in (folder, link, Path("/dev/null")):
        with pytest.raises(WriteError, match="not a regular file"):
            write_tiny(target, force=True)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["folder", "link"]


@contextmanager
def unprivileged() -> Iterator[None]:
    """Give up the right to ignore permissions, where the tests have it."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_read_only_folder() -> None:
    with tempfile.TemporaryDirectory() as name:  # not below a folder that is closed to others
        folder = Path(name)
        folder.chmod(0o555)
        with unprivileged(), pytest.raises(WriteError) as caught:
            write_tiny(folder / "a.vqf")
        assert str(caught.value) == f"{folder / 'a.vqf'} cannot be written: Permission denied"
        assert isinstance(caught.value.__cause__, OSError)
        assert not list(folder.iterdir())
        folder.chmod(0o755)


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match="cannot be written: No such file"):
        write_tiny(tmp_path / "absent" / "a.vqf")


def program(body: str) -> str:
    """Return a program that writes the example file under the name of its first argument."""
    return (
        "import os, resource, sys, time\n"
        "from crypto import atomic\n"
        "from crypto.errors import WriteError\n"
        "from engine.vqf import write_vqf\n"
        "from tests.engine.vqf import tiny\n"
        "def write(**options):\n"
        "    return write_vqf(sys.argv[1], tiny.CONFIG, tiny.TOKENIZER, tiny.PLAN,\n"
        "                     tiny.source, **options)\n"
    ) + body


@pytest.mark.parametrize("limit", [100, 4096, 20_000, 32_767])
def test_no_space(tmp_path: Path, limit: int) -> None:
    """A file that may not grow as far as needed is a full disk to the one who writes it."""
    body = (
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
        "try:\n"
        "    write()\n"
        "except WriteError as error:\n"
        "    print(error)\n"
    )
    path = tmp_path / "a.vqf"
    done = subprocess.run(
        [sys.executable, "-c", program(body), str(path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=CHECKOUT,
    )
    assert done.stdout == f"{path} cannot be written: File too large\n"
    assert not list(tmp_path.iterdir())


def test_no_space_while_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same where the file system cannot claim space before."""
    real = os.pwrite

    def full(descriptor: int, data: bytes, offset: int) -> int:
        if offset > 12_000:
            raise OSError(28, "No space left on device")
        return real(descriptor, data, offset)

    def unable(*_args: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "posix_fallocate", unable)
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(WriteError, match="No space left on device"):
        write_tiny(tmp_path / "a.vqf")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("named", [False, True], ids=["without a name", "hidden name"])
def test_interrupted(tmp_path: Path, number: signal.Signals, named: bool) -> None:
    """Nothing is left, but by a kill where the file system has no files without names."""
    left = int(named and number is not signal.SIGINT)
    body = (
        f"if {named}:\n"
        "    atomic.AtomicFile._without_name = lambda self: -1\n"
        "def wait(done, total):\n"
        "    if done > 10_000:\n"
        "        print('ready', flush=True)\n"
        "        time.sleep(60)\n"
        "write(progress=wait)\n"
    )
    path = tmp_path / "a.vqf"
    with subprocess.Popen(
        [sys.executable, "-c", program(body), str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=CHECKOUT,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.wait(30) != 0
    assert not path.exists()
    assert len(list(tmp_path.iterdir())) == left
    write_tiny(path)


def test_failure_of_the_source_passes_through(tmp_path: Path) -> None:
    class OwnError(Exception):
        pass

    def source(name: str) -> Iterator[Any]:
        if name == "final":
            raise OwnError
        yield from tiny.source(name)

    with pytest.raises(OwnError):
        write_vqf(tmp_path / "a.vqf", tiny.CONFIG, tiny.TOKENIZER, tiny.PLAN, source)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda parts: parts[:-1], "head is missing"),
        (lambda parts: [*parts, b"more"], "more than was planned"),
        (lambda parts: [parts[0][:-1], parts[1]], "final_norm has 2172 bytes and was planned"),
        (lambda parts: parts[::-1], "final_norm has 2048 bytes"),
    ],
    ids=["too few", "too many", "too short", "wrong order"],
)
def test_source_that_breaks_the_plan(tmp_path: Path, change: Any, message: str) -> None:
    def source(name: str) -> Iterator[Any]:
        parts = list(tiny.source(name))
        return iter(change(parts) if name == "final" else parts)

    with pytest.raises(ConversionError, match=message):
        write_vqf(tmp_path / "a.vqf", tiny.CONFIG, tiny.TOKENIZER, tiny.PLAN, source)
    assert not list(tmp_path.iterdir())


def renamed(plan: tuple[ExtentPlan, ...], at: int, **changes: Any) -> tuple[ExtentPlan, ...]:
    return (*plan[:at], plan[at]._replace(**changes), *plan[at + 1 :])


@pytest.mark.parametrize(
    ("config", "plan", "message"),
    [
        (replace(tiny.CONFIG, vocab_size=21), tiny.PLAN, r"shape \[20, 32\] .*rule R35"),
        (replace(tiny.CONFIG, architecture="mamba"), tiny.PLAN, "rule R21"),
        (replace(tiny.CONFIG, norm_eps_bits=1e-5), tiny.PLAN, "no float"),
        (tiny.CONFIG, tiny.PLAN[:3], "tokenizer is missing"),
        (tiny.CONFIG, (), "rule R19"),
        (tiny.CONFIG, renamed(tiny.PLAN, 3, raw_bytes_length=0), "rule R19"),
        (tiny.CONFIG, renamed(tiny.PLAN, 3, raw_bytes_length=-1), "rule R19"),
        (
            tiny.CONFIG,
            renamed(tiny.PLAN, 0, tensors=(TensorSpec("embedding", "Q4_K", (20, 32)),)),
            "columns come in 256",
        ),
        (
            tiny.CONFIG,
            renamed(tiny.PLAN, 0, tensors=(TensorSpec("embedding", "Q3_K", (20, 32)),)),
            "unknown tensor kind",
        ),
        (
            tiny.CONFIG,
            renamed(tiny.PLAN, 0, tensors=(TensorSpec("embedding", "F32", (20, 32, 1)),)),
            "cannot become a VQF file",
        ),
    ],
)
def test_plan_that_is_no_file(tmp_path: Path, config: Any, plan: Any, message: str) -> None:
    called: list[str] = []
    with pytest.raises(ConversionError, match=message):
        write_vqf(tmp_path / "a.vqf", config, tiny.TOKENIZER, plan, called.append)
    assert not called
    assert not list(tmp_path.iterdir())


def test_buffers_of_any_type(tmp_path: Path) -> None:
    """A tensor may be bytes, a memoryview or an array of its own type."""

    def source(name: str) -> Iterator[Any]:
        for index, data in enumerate(tiny.source(name)):
            raw = bytes(memoryview(data).cast("B"))
            shapes = (
                bytes,
                memoryview,
                bytearray,
                lambda b: np.frombuffer(b, "<u2").reshape(2, -1),
            )
            yield shapes[index % 4](raw)

    digest = write_vqf(tmp_path / "a.vqf", tiny.CONFIG, tiny.TOKENIZER, tiny.PLAN, source)
    assert digest == write_tiny(tmp_path / "b.vqf")
