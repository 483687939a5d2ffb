"""A file that is copied to the data disk, after a power cut in the middle of the copy before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.firmware.image.ground import IMAGE

PROGRAM = """
import os, pathlib, types
from files import copy
source, target, left = map(pathlib.Path, sys.argv[2:])
# a disk that the file that was left behind has filled
os.statvfs = lambda _: types.SimpleNamespace(f_bavail=0 if left.exists() else 9, f_frsize=1)
copy(source, target, mode=0o640, owner=(os.getuid(), os.getgid()))
"""


def test_what_a_power_cut_left_of_a_copy_takes_no_space(tmp_path: Path) -> None:
    source, target, left = (tmp_path / name for name in ("source", "model", ".model.new"))
    source.write_bytes(b"weights")
    left.write_bytes(b"wei")
    program = f"import sys; sys.path.insert(0, sys.argv[1]){PROGRAM}"
    words = [IMAGE / "setup", source, target, left]
    subprocess.run([sys.executable, "-I", "-B", "-c", program, *words], check=True, timeout=60)
    assert target.read_bytes() == b"weights"
    assert not left.exists()
