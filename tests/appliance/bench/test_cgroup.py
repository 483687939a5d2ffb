"""Groups: where they may be made, what a real one is charged, and that nothing is left of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.bench.cgroup import (
    GroupV2,
    MemoryGroup,
    NotMeasurableError,
    Place,
    make_group,
    memory_group,
    places,
)
from appliance.bench.charge import Charge
from appliance.bench.pages import evict
from appliance.bench.sampler import Sampler
from appliance.cli.errors import describe
from tests.appliance.bench.test_charge import recorded

LIMIT = 200_000_000
PYTHON = [sys.executable, "-I", "-S", "-c"]
TOUCH = """
import mmap, sys
own = b"x" * (64 << 20)
file = open(sys.argv[1], "rb")
memory = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
sum(memory[i] for i in range(0, len(memory), 4096))
print("there", flush=True)
sys.stdin.read()
"""
V1 = "35 31 0:32 / /cg/memory rw,relatime - cgroup cgroup rw,memory\n"
V2 = "41 31 0:38 / /cg/unified rw,relatime - cgroup2 cgroup2 rw\n"
OTHER = "33 31 0:30 / /cg/cpu rw - cgroup cgroup rw,cpu\n31 23 0:28 / /cg rw - tmpfs tmpfs rw\n"


@pytest.fixture
def group() -> Iterator[MemoryGroup]:
    """A real group."""
    try:
        made = memory_group(LIMIT)
        with made as found:
            yield found
    except NotMeasurableError as error:
        if error.reason != "cgroup":
            raise
        pytest.skip(f"a real memory cgroup is not permitted here: {error}")


def test_places_of_version_1() -> None:
    own = "4:memory:/a/b\n1:cpu:/c\n0::/\n"
    folders = [Path("/cg/memory/a/b"), Path("/cg/memory/a"), Path("/cg/memory")]
    found = places(own, OTHER + V2 + V1)
    assert found[:3] == [Place(1, folder) for folder in folders]
    assert found[3:] == [Place(2, Path("/cg/unified"))]


def test_places_of_version_2() -> None:
    found = places("0::/user.slice/me\n", OTHER + V2)
    top = Path("/cg/unified")
    assert found == [Place(2, top / "user.slice/me"), Place(2, top / "user.slice"), Place(2, top)]


def test_places_in_a_container() -> None:
    mount = V1.replace(" / /cg", " /docker/1 /cg")
    assert places("4:memory:/docker/1/x\n", mount)[0] == Place(1, Path("/cg/memory/x"))
    assert places("4:memory:/elsewhere\n", mount) == [Place(1, Path("/cg/memory"))]


def test_no_controller() -> None:
    assert places("1:cpu:/\n", OTHER) == []
    with pytest.raises(NotMeasurableError, match="there is no memory controller") as caught:
        make_group([], LIMIT)
    failure = describe(caught.value)
    assert (failure.exit_code, failure.reason) == (3, "cgroup")


def test_a_place_that_hands_nothing_on(tmp_path: Path) -> None:
    (tmp_path / "cgroup.subtree_control").write_text("cpu pids\n")
    with pytest.raises(NotMeasurableError, match="does not hand on the memory controller"):
        make_group([Place(2, tmp_path), Place(2, tmp_path / "none")], LIMIT)


def test_a_place_that_is_no_cgroup(tmp_path: Path) -> None:
    (tmp_path / "cgroup.subtree_control").write_text("memory\n")
    (tmp_path / "v1").mkdir()
    wrong = [Place(1, tmp_path / "v1"), Place(2, tmp_path), Place(1, tmp_path / "absent")]
    with pytest.raises(NotMeasurableError, match=r"v1: No such.*; .*: No such.*absent: No such"):
        make_group(wrong, LIMIT)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cgroup.subtree_control", "v1"]
    assert list((tmp_path / "v1").iterdir()) == []


def test_files_of_version_2(tmp_path: Path) -> None:
    for name, text in recorded(2).items():
        (tmp_path / name).write_text(text)
    group = GroupV2.__new__(GroupV2)  # without making a folder, which only a cgroup fills
    group.folder = tmp_path
    (tmp_path / "memory.max").write_text("max")
    group._limit(LIMIT)
    assert (tmp_path / "memory.max").read_text() == str(LIMIT)
    assert not (tmp_path / "memory.swap.max").exists()
    assert group.charge().swap == 20_480
    assert group.peak() == Charge(swap=24_576, whole=81_000_000)
    assert (group.kills(), group.tells_swap) == (1, True)
    for name in ("memory.swap.current", "memory.swap.peak", "memory.peak"):
        (tmp_path / name).unlink()
    assert (group.charge().swap, group.peak(), group.tells_swap) == (0, Charge(), False)


def test_known_memory_of_a_real_process(group: MemoryGroup, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(16 << 20))
    evict(path)
    process = subprocess.Popen(
        group.command([*PYTHON, TOUCH, str(path)]), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    status = path.stat()
    with process, Sampler(group, process.pid, status.st_dev, status.st_ino, "first") as sampler:
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
        sampler.enter("second")
        process.communicate()
    assert process.returncode == 0
    peak = sampler.peak
    assert 64 << 20 <= peak.anonymous < 80 << 20
    assert 0 <= peak.mapped <= peak.page_cache < 40 << 20
    assert peak.anonymous < peak.whole < LIMIT
    assert peak.swap == 0
    assert sampler.mapped.model == 16 << 20
    assert sampler.mapped.others > 1 << 20
    assert set(sampler.phases) == {"first", "second"}
    assert sampler.phases["first"].anonymous >= 64 << 20
    assert sampler.num_samples >= 2
    assert group.kills() == 0


def test_above_the_limit(group: MemoryGroup) -> None:
    done = subprocess.run(group.command([*PYTHON, "x = b'x' * (400 << 20)"]), check=False)
    assert done.returncode == -9
    assert group.kills() == 1
    assert LIMIT // 2 < group.peak().whole <= LIMIT


def test_nothing_is_left(group: MemoryGroup) -> None:
    process = subprocess.Popen(group.command([*PYTHON, "import time; time.sleep(60)"]))
    members = group.folder / "cgroup.procs"
    while members.read_text().split() != [str(process.pid)]:
        time.sleep(0.001)
    group.close()
    assert process.wait() == -9
    assert not group.folder.exists()


def test_a_group_that_stays_busy(group: MemoryGroup, monkeypatch: pytest.MonkeyPatch) -> None:
    within = group.folder / "within"
    within.mkdir()
    monkeypatch.setattr("appliance.bench.cgroup._PATIENCE_S", 0.05)
    try:
        with pytest.raises(NotMeasurableError, match="cannot be removed"):
            group.close()
    finally:
        within.rmdir()
