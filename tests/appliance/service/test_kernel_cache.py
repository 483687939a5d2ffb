"""Prepared kernels: made once, only read, complete or refused, under the software digest."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from appliance.service import kernel_cache
from appliance.service.kernel_cache import prepare
from engine.errors import ConfigError
from tests.appliance.service.child import CHECKOUT, cache, environment, run

pytestmark = [pytest.mark.slow, pytest.mark.ci]

START = """
import json, sys
from pathlib import Path
from appliance.service import kernel_cache
from engine.errors import ConfigError
said = kernel_cache.choose(Path(sys.argv[1]), is_dev=False)
compiled = []
from simd import target
from numba.core import event
class Count(event.Listener):
    def on_start(self, event): compiled.append(str(event.data))
    def on_end(self, event): pass
event.register("numba:compile", Count())
event.register("numba:run_pass", Count())
try:
    kernel_cache.load()
    from engine import known_answer
    known_answer.check("qwen2", ["Q5_0"], num_threads=2)
    print(json.dumps([said, len(compiled), ""]))
except ConfigError as error:
    print(json.dumps([said, len(compiled), str(error)]))
"""


@pytest.fixture
def prepared(prepared_kernels: Path) -> Path:
    """A folder of prepared kernels."""
    return prepared_kernels


def unlock(folder: Path) -> None:
    """Give write bits back, so that the folder can be changed or removed."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)


def copy(prepared: Path, target: Path) -> Path:
    """Return a copy that can be changed."""
    shutil.copytree(prepared, target)
    unlock(target)
    return target


def close(folder: Path) -> Path:
    """Take the write bits away again."""
    for path in (*folder.rglob("*"), folder):
        path.chmod(path.stat().st_mode & ~0o222)
    return folder


def test_what_is_prepared_is_read_and_nothing_is_compiled(prepared: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in prepared.rglob("*")}
    assert run(START, prepared) == ["prepared", 0, ""]
    assert {path: path.stat().st_mtime_ns for path in prepared.rglob("*")} == before


def test_a_second_time_everything_is_there_already(prepared: Path) -> None:
    again = prepare(prepared)
    assert not again.is_new
    assert again.num_files > 60
    assert not any(path.stat().st_mode & 0o222 for path in (prepared, *prepared.rglob("*")))


@pytest.mark.parametrize("lost", ["pool._run-*.nbi", "ops.linear_q5_0-*.nbc", "kernel.draw-*.nbi"])
def test_a_missing_kernel_is_an_error_and_not_compiled(
    prepared: Path, tmp_path: Path, lost: str
) -> None:
    folder = copy(prepared, tmp_path / "copy")
    found = list(folder.rglob(lost))
    assert found
    for path in found:
        path.unlink()
    _, _, line = run(START, close(folder))
    assert "is not among the prepared kernels" in line
    assert "windhover compile-cache" in line
    unlock(folder)


@pytest.mark.parametrize("content", [b"", b"\x80\x04broken", b"not a pickle"])
def test_a_damaged_kernel_is_an_error(prepared: Path, tmp_path: Path, content: bytes) -> None:
    folder = copy(prepared, tmp_path / "copy")
    next(folder.rglob("ops.norm-*.nbc")).write_bytes(content)
    _, _, line = run(START, close(folder))
    assert "cannot be loaded" in line
    assert "compile-cache" in line
    unlock(folder)


def test_kernels_of_other_sources_are_no_kernels(prepared: Path, tmp_path: Path) -> None:
    folder = copy(prepared, tmp_path / "copy")
    (inner,) = folder.iterdir()
    inner.rename(folder / f"{inner.name[:-1]}x")
    _, _, line = run(START, close(folder))
    assert "no kernels are prepared for this CPU and version" in line
    unlock(folder)


def test_a_folder_that_the_process_could_write_is_refused(prepared: Path, tmp_path: Path) -> None:
    folder = copy(prepared, tmp_path / "copy")
    with pytest.raises(ConfigError, match="this process could write it"):
        kernel_cache.choose(folder, is_dev=False)
    close(folder)
    one = next(folder.rglob("*.nbc"))
    one.chmod(0o644)
    with pytest.raises(ConfigError, match=one.name):
        kernel_cache.choose(folder, is_dev=True)
    with pytest.raises(ConfigError, match="there are no prepared kernels"):
        kernel_cache.choose(tmp_path / "nowhere", is_dev=False)
    unlock(folder)


def test_a_process_killed_while_it_prepares_leaves_nothing_that_is_read(
    prepared: Path, tmp_path: Path
) -> None:
    folder = copy(prepared, tmp_path / "kernels")
    (folder / ".new-abc").mkdir()
    (folder / ".new-abc" / "half").write_bytes(b"x")
    made = prepare(folder)
    assert [path.name for path in folder.iterdir()] == [made.folder.name]
    unlock(folder)


def test_the_software_digest_covers_the_prepared_kernels(prepared: Path, tmp_path: Path) -> None:
    program = """
import json
from appliance.software import describe, places
found = {p.path: p for p in places() if p.path.startswith("kernels/")}
print(json.dumps({name: describe(place).digest.hex() for name, place in found.items()}))
"""
    listed = run(program, **cache(prepared, "read"))
    files = {f"kernels/{path.relative_to(prepared)}" for path in prepared.rglob("*.nb?")}
    assert set(listed) == files
    folder = copy(prepared, tmp_path / "copy")
    altered = next(folder.rglob("*.nbc"))
    altered.write_bytes(altered.read_bytes() + b"x")
    other = run(program, **cache(folder, "read"))
    assert {name for name in listed if other[name] != listed[name]} == {
        f"kernels/{altered.relative_to(folder)}"
    }
    assert run(program, **cache(prepared, "none")) == {}


def test_without_a_folder_nothing_is_read_from_a_cache_and_nothing_kept(tmp_path: Path) -> None:
    program = """
import json
from engine.kernels import ops
from engine.sampling import kernel
print(json.dumps([ops.norm.compiled.cache_hits, sum(kernel.greedy.stats.cache_hits.values())]))
"""
    assert run(program, **cache(tmp_path, "none")) == [0, 0]
    assert list(tmp_path.rglob("*.nb?")) == []


def test_an_unknown_use_is_refused_in_one_line() -> None:
    result = subprocess.run(
        [sys.executable, "-c", "import simd.target"],
        check=False,
        capture_output=True,
        text=True,
        cwd=CHECKOUT,
        env=environment(**cache(Path("x"), "sometimes")),
    )
    assert result.returncode
    assert "'sometimes', not one of write, read, none" in result.stderr.splitlines()[-1]


def test_choosing_leaves_the_environment_of_a_refusal_as_it_was(tmp_path: Path) -> None:
    before = dict(os.environ)
    with pytest.raises(ConfigError):
        kernel_cache.choose(tmp_path, is_dev=False)
    assert dict(os.environ) == before
