"""Kernels for several targets in one folder, also such as this CPU lacks: the same bytes again."""

from __future__ import annotations

import json
import platform
from typing import TYPE_CHECKING

import pytest

from appliance.cli.main import run
from appliance.service.kernel_cache import prepare
from crypto.sm3 import sm3

if TYPE_CHECKING:
    from pathlib import Path

# no `ci`: it compiles everything three times
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the targets are those of x86-64"),
]


def digests(folder: Path) -> dict[str, str]:
    """Return the SM3 of each file by its path in the folder."""
    return {
        str(path.relative_to(folder)): sm3(path.read_bytes()).hex()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_same_sources_give_the_same_bytes_for_a_cpu_that_is_not_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    try:
        made = prepare(folders[0], "avx512")
        assert made.is_new
        assert made.folder.name.startswith("avx512-x86-64-v4-")
        assert run(["compile-cache", str(folders[1]), "--target", "avx512", "--json"]) == 0
        (target,) = json.loads(capsys.readouterr().out)["targets"]
        assert target == {"folder": str(folders[1] / made.folder.name), "new": True, "files": 80}
        first, second = map(digests, folders)
        assert len(first) == 80
        assert first == second
        words = ["--target", "avx512", "--target", "avx2", "--json"]
        assert run(["compile-cache", str(folders[0]), *words]) == 0
        found = json.loads(capsys.readouterr().out)["targets"]
        assert [each["new"] for each in found] == [False, True]
        assert {path.partition("-")[0] for path in digests(folders[0])} == {"avx2", "avx512"}
        content = b"".join(path.read_bytes() for path in folders[0].rglob("*.nbc"))
        assert b" at 0x" not in content  # an address of the process that compiled
    finally:
        for path in (each for folder in folders for each in (folder, *folder.rglob("*"))):
            path.chmod(path.stat().st_mode | 0o200)
