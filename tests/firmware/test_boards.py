"""Which cores the service gets, on boards that are folders of a test."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.firmware.tools import FIRMWARE, statements

SCRIPT = FIRMWARE / "boards" / "windhover-cores"
RK3588 = (*[406] * 4, *[1024] * 4)
GOVERNORS = "performance schedutil powersave"


class Board:
    """A root with what a kernel says about a board."""

    def __init__(self, root: Path, *names: str, capacities: tuple[int, ...] = ()) -> None:
        """Make it; without names it has no device tree, as a PC."""
        self.root = root
        table = root / "usr/lib/windhover/boards.table"
        table.parent.mkdir(parents=True)
        table.write_bytes((FIRMWARE / "boards/boards.table").read_bytes())
        if names:
            (root / "proc/device-tree").mkdir(parents=True)
            (root / "proc/device-tree/compatible").write_bytes(
                b"".join(name.encode() + b"\0" for name in names)
            )
        self.cpus = root / "sys/devices/system/cpu"
        for number, capacity in enumerate(capacities):
            cpu = self.cpus / f"cpu{number}"
            cpu.mkdir(parents=True)
            if capacity:
                (cpu / "cpu_capacity").write_text(f"{capacity}\n")
        for first in range(0, len(capacities), 4):
            policy = self.cpus / f"cpufreq/policy{first}"
            policy.mkdir(parents=True)
            cores = range(first, min(first + 4, len(capacities)))
            (policy / "related_cpus").write_text(" ".join(map(str, cores)) + "\n")
            (policy / "scaling_available_governors").write_text(f"{GOVERNORS}\n")
            (policy / "scaling_governor").write_text("powersave\n")

    def run(self, *words: object, exit_code: int = 0) -> str:
        """Run the script; return what it complains about."""
        result = subprocess.run(
            [SCRIPT, *map(str, words)],
            check=False,
            capture_output=True,
            text=True,
            env={"PATH": "/usr/bin:/bin", "WINDHOVER_ROOT": str(self.root)},
            timeout=20,
        )
        assert result.returncode == exit_code, result.stderr
        assert result.stdout == ""
        return result.stderr

    def pinned(self) -> dict[str, str]:
        """Return the cores by unit that the generator writes."""
        folder = self.root / "generated"
        folder.mkdir()
        self.run(folder, folder, folder)
        return {
            path.parent.name.removesuffix(".d"): path.read_text().split("CPUAffinity=")[1].strip()
            for path in folder.rglob("*.conf")
        }

    def governors(self) -> list[str]:
        """Return the governors after the script has set them."""
        self.run("governor")
        paths = sorted(self.cpus.rglob("scaling_governor"))
        return [path.read_text().strip() for path in paths]


def test_the_shell_accepts_the_scripts() -> None:
    for path in (SCRIPT, Path(__file__).with_name("boot.sh")):
        subprocess.run(["/bin/sh", "-n", path], check=True)
    assert SCRIPT.stat().st_mode & 0o111 == 0o111


def test_the_big_cores_compute(tmp_path: Path) -> None:
    board = Board(tmp_path, "radxa,rock-5b", "rockchip,rk3588", capacities=RK3588)
    assert board.pinned() == {
        "windhover.service": "4-7", "windhover-check.service": "0-3", "nginx.service": "0-3",
    }  # fmt: skip
    assert board.governors() == ["schedutil", "performance"]


@pytest.mark.parametrize(
    ("names", "capacities"),
    [
        ((), (0,) * 4),  # a PC
        (("brcm,bcm2712",), (1024,) * 4),
        (("rockchip,rk3568",), (1024,) * 4),
        (("unknown,board",), RK3588),
        (("rockchip,rk3588x",), RK3588),
    ],
)
def test_of_cores_that_are_alike_or_unknown_none_is_pinned(
    tmp_path: Path, names: tuple[str, ...], capacities: tuple[int, ...]
) -> None:
    board = Board(tmp_path, *names, capacities=capacities)
    assert board.pinned() == {}
    assert set(board.governors()) == {"performance"}


@pytest.mark.parametrize(
    "capacities",
    [
        RK3588[:6],  # two cores are off
        RK3588[::-1],  # numbered the other way round
        (1024,) * 8,  # all alike: somebody else's board
    ],
)
def test_a_row_that_the_kernel_contradicts_pins_nothing(
    tmp_path: Path, capacities: tuple[int, ...]
) -> None:
    board = Board(tmp_path, "rockchip,rk3588", capacities=capacities)
    assert "are not those of its row" in board.run("governor")
    assert board.pinned() == {}
    assert set(board.governors()) == {"performance"}


def test_a_kernel_that_says_no_capacity_is_no_contradiction(tmp_path: Path) -> None:
    board = Board(tmp_path, "rockchip,rk3588", capacities=(0,) * 8)
    assert board.pinned()["windhover.service"] == "4-7"


def test_a_governor_that_is_not_there_is_left(tmp_path: Path) -> None:
    board = Board(tmp_path, "rockchip,rk3588", capacities=RK3588)
    for path in board.cpus.rglob("scaling_available_governors"):
        path.write_text("powersave\n")
    assert "has no governor performance" in board.run("governor")
    assert board.governors() == ["powersave", "powersave"]


def test_without_its_table_it_does_nothing(tmp_path: Path) -> None:
    board = Board(tmp_path, "rockchip,rk3588", capacities=RK3588)
    (tmp_path / "usr/lib/windhover/boards.table").unlink()
    assert "cannot be read" in board.run("governor")
    assert board.pinned() == {}


def test_another_word_is_refused(tmp_path: Path) -> None:
    Board(tmp_path, capacities=(0,)).run("governors", exit_code=2)


@pytest.mark.parametrize("row", statements("boards/boards.table"))
def test_every_row_is_one(tmp_path: Path, row: str) -> None:
    name, computing, others, governor, of_others = row.partition("#")[0].split()
    assert (computing == "-") == (others == "-") == (of_others == "-")
    assert {governor, of_others} <= {"performance", "schedutil", "-"}
    if computing == "-":
        return
    first, last = map(int, computing.split("-"))
    low, high = map(int, others.split("-"))
    assert (low, high + 1) == (0, first)  # every core is on one side
    capacities = tuple(1024 if number >= first else 400 for number in range(last + 1))
    assert Board(tmp_path, name, capacities=capacities).pinned()["windhover.service"] == computing


def test_the_last_row_is_for_all_others() -> None:
    assert statements("boards/boards.table")[-1].split()[0] == "*"
