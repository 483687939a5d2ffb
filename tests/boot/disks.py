"""Disks as files: a blank one, the medium that an operator plugs in, and what is read from both."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.firmware.tools import tool

MEDIUM_LABEL = "WH-SETUP"
_SBIN = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
_QUIET = ["-q", "-F", "-t", "ext4", "-E", "root_owner=0:0,lazy_itable_init=0"]


def blank(path: Path, num_bytes: int) -> Path:
    """Make a disk of zeros."""
    with path.open("wb") as file:
        file.truncate(num_bytes)
    return path


def make_medium(path: Path, files: Path, num_bytes: int) -> Path:
    """Make a medium with the files of a folder; without a journal, so that it is read as it lies.

    Args:
        path: of the medium; what is there is replaced.
        files: everything in it goes to the root of the medium.
        num_bytes: its size.
    """
    path.unlink(missing_ok=True)
    blank(path, num_bytes)
    options = ["-O", "^has_journal", "-L", MEDIUM_LABEL, "-d", str(files)]
    _run("mke2fs", *_QUIET, *options, str(path))
    return path


def read_folder(disk: Path, name: str, into: Path) -> Path:
    """Copy a folder out of an ext4 file system that is not mounted; return where it is.

    Args:
        disk: raw, a file system without a partition table. Only read.
        name: of the folder in it, absolute.
        into: a folder that is made anew.
    """
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    _run("debugfs", "-R", f'rdump "{name}" "{into}"', str(disk))
    for path in into.rglob("*"):  # whoever owned it there, it is read here
        os.chown(path, os.geteuid(), os.getegid(), follow_symlinks=False)
    return into / Path(name).name


def replayed(disk: Path, copy: Path) -> Path:
    """Copy a disk whose power was cut, sparsely, and let its journal be replayed in the copy."""
    _run("cp", "--sparse=always", str(disk), str(copy))
    done = subprocess.run(
        [found("e2fsck"), "-f", "-p", str(copy)], check=False, capture_output=True, text=True
    )
    # 1: errors were corrected, which for a journal that is replayed it need not even say
    assert done.returncode in {0, 1}, f"e2fsck: {done.returncode}: {done.stdout}{done.stderr}"
    return copy


def found(name: str) -> str:
    """Return where a program lies that is often outside of PATH; skip the test without it."""
    return shutil.which(name, path=_SBIN) or tool(name)


def _run(name: str, *words: str) -> str:
    done = subprocess.run([found(name), *words], check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
    return done.stdout
