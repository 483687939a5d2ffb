"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from crypto.atomic import AtomicFile
from crypto.errors import WriteError

OLD, NEW = b"old" * 1000, b"new" * 2000


@pytest.fixture(params=[False, True], ids=["without a name", "hidden name"])
def target(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The name of a file that may be replaced, with and without help of the file system."""
    if request.param:
        monkeypatch.setattr(AtomicFile, "_without_name", lambda _self: -1)
    path = tmp_path / "target"
    path.write_bytes(OLD)
    return path


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_the_new_file_takes_the_name_of_the_old_one(target: Path) -> None:
    with target.open("rb") as reader:
        with AtomicFile(target, force=True, mode=0o640) as file:
            file.create()
            file.write_at(0, NEW)
            assert target.read_bytes() == OLD
            file.commit()
        assert reader.read() == OLD, "who has the old file open keeps it"
    assert target.read_bytes() == NEW
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert names(target.parent) == ["target"]


def test_without_commit_nothing_happens(target: Path) -> None:
    with AtomicFile(target, force=True) as file:
        file.create()
        file.write_at(0, NEW)
    with pytest.raises(KeyboardInterrupt), AtomicFile(target, force=True) as file:  # noqa: PT012
        file.create()
        raise KeyboardInterrupt
    assert target.read_bytes() == OLD
    assert names(target.parent) == ["target"]


def test_no_force_no_replacement(target: Path) -> None:
    with AtomicFile(target, force=False) as file, pytest.raises(WriteError, match="exists already"):
        file.create()
    fresh = target.with_name("fresh")
    with AtomicFile(fresh, force=False, mode=0o600) as file:
        file.create()
        file.write_at(0, NEW)
        file.commit()
    assert fresh.read_bytes() == NEW
    assert stat.S_IMODE(fresh.stat().st_mode) == 0o600


@pytest.mark.parametrize("in_kernel", [True, False], ids=["in the kernel", "piece by piece"])
def test_ranges_of_another_file(
    target: Path, monkeypatch: pytest.MonkeyPatch, in_kernel: bool
) -> None:
    if not in_kernel:

        def unable(*_args: object) -> int:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

        monkeypatch.setattr(os, "copy_file_range", unable)
    content = os.urandom(3 << 20)
    source = target.with_name("source")
    source.write_bytes(content)
    descriptor = os.open(source, os.O_RDONLY)
    try:
        with AtomicFile(target, force=True) as file:
            file.create()
            file.write_at(0, b"head")
            file.copy_range(descriptor, 5, 4096, len(content) - 5)
            file.commit()
        assert target.read_bytes() == b"head".ljust(4096, b"\0") + content[5:]
        with AtomicFile(target, force=True) as file:
            file.create()
            with pytest.raises(WriteError, match="became shorter"):
                file.copy_range(descriptor, 0, 0, len(content) + 1)
    finally:
        os.close(descriptor)
    assert target.read_bytes().startswith(b"head")


def test_a_full_disk_while_copying(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_args: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "copy_file_range", full)
    descriptor = os.open(target, os.O_RDONLY)
    try:
        with AtomicFile(target, force=True) as file:
            file.create()
            with pytest.raises(WriteError, match="No space left") as caught:
                file.copy_range(descriptor, 0, 0, len(OLD))
    finally:
        os.close(descriptor)
    assert isinstance(caught.value.__cause__, OSError)
    assert target.read_bytes() == OLD
    assert names(target.parent) == ["target"]


def test_a_system_without_proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There a file without a name could not get one, so it is made under a hidden name."""
    real = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: not str(path).startswith("/proc") and real(path, mode)
    )
    with AtomicFile(tmp_path / "target", force=False) as file:
        file.create()
        (hidden,) = names(tmp_path)
        assert hidden.startswith(".target.")
        assert hidden.endswith(".partial")
        file.commit()
    assert names(tmp_path) == ["target"]
