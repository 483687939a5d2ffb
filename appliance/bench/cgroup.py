"""A memory cgroup, of version 1 or 2, for one measured process; removed again afterwards.

Sources: Documentation/admin-guide/cgroup-v1/memory.rst, cgroup-v2.rst; cgroups(7).
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, Self

from appliance.bench import enter
from appliance.bench.charge import Charge, charge_v1, charge_v2, parse_stat
from crypto.errors import UnavailableError

_CONTROLLER: Final = "memory"
_PREFIX: Final = "windhover-bench-"
_PATIENCE_S: Final = 5.0


class NotMeasurableError(UnavailableError):
    """What was asked for cannot be measured here, or what was measured would mislead.

    The codes of `reason` are in appliance/bench/README.md.
    """

    def __init__(self, reason: str, message: str) -> None:
        """Keep the code, which scripts compare, and say the line, which people read."""
        super().__init__(message)
        self.reason = reason


class Place(NamedTuple):
    """A folder in which groups of one version may be made."""

    version: int
    folder: Path


def places(own: str, mounts: str) -> list[Place]:
    """Return where the memory controller may let this process make groups, its own group first.

    Args:
        own: /proc/self/cgroup.
        mounts: /proc/self/mountinfo.
    """
    found: list[Place] = []
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        if _CONTROLLER in controllers.split(","):
            version, kind = 1, "cgroup"
        elif not controllers:
            version, kind = 2, "cgroup2"
        else:
            continue
        for root, point, options in _mounts(mounts, kind):
            if version == 1 and _CONTROLLER not in options:
                continue
            within = os.path.relpath(path, root)
            top = Path(point)
            folder = top if within == "." or within.startswith("..") else top / within
            found.append(Place(version, folder))
            while folder != top:
                folder = folder.parent
                found.append(Place(version, folder))
    return sorted(found, key=lambda place: place.version)


def _mounts(mounts: str, kind: str) -> Iterator[tuple[str, str, set[str]]]:
    """Yield root, mount point and options of each file system of one kind."""
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        where, what = left.split(), right.split()
        if len(where) > 4 and len(what) > 2 and what[0] == kind:
            yield where[3], where[4], set(what[2].split(","))


class MemoryGroup(ABC):
    """A group of its own with a limit; a context manager that removes it."""

    version: int

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        """Make the group.

        Raises:
            OSError: it cannot be made or limited there; nothing of it is left.
        """
        self.folder = folder
        self.limit_bytes = limit_bytes
        folder.mkdir()
        try:
            self._limit(limit_bytes)
            self.charge()
        except BaseException:
            folder.rmdir()
            raise

    def __enter__(self) -> Self:
        """Use it."""
        return self

    def __exit__(self, *_details: object) -> None:
        """Kill what is still in it, and remove it."""
        self.close()

    def command(self, program: Sequence[str]) -> list[str]:
        """Return the command line that runs a program, given by its path, inside the group."""
        launcher = [sys.executable, "-I", "-S", enter.__file__]
        return [*launcher, str(self.folder / "cgroup.procs"), *program]

    def close(self) -> None:
        """Kill what is still in the group, and remove it.

        Raises:
            NotMeasurableError: it stays busy.
        """
        end_s = time.monotonic() + _PATIENCE_S
        while self.folder.exists():
            for member in self._text("cgroup.procs").split():
                with suppress(ProcessLookupError):
                    os.kill(int(member), signal.SIGKILL)
            self._forget_pages()
            try:
                self.folder.rmdir()
            except OSError as error:
                if time.monotonic() > end_s:
                    message = f"{self.folder} cannot be removed: {error.strerror}"
                    raise NotMeasurableError("cgroup", message) from error
                time.sleep(0.02)

    @abstractmethod
    def charge(self) -> Charge:
        """Return what the group is charged now."""

    @abstractmethod
    def peak(self) -> Charge:
        """Return the peaks that the kernel itself keeps; 0 where it keeps none."""

    @property
    @abstractmethod
    def tells_swap(self) -> bool:
        """Whether the kernel tells what of the group is in swap."""

    @abstractmethod
    def kills(self) -> int:
        """Return how many processes the limit has killed."""

    @abstractmethod
    def _limit(self, limit_bytes: int) -> None:
        """Set the limit, and swap to nothing."""

    @abstractmethod
    def _forget_pages(self) -> None:
        """Give back what the group is still charged for files, where that can be asked for."""

    def _text(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="ascii")

    def _number(self, name: str) -> int:
        return int(self._text(name))

    def _optional(self, name: str) -> int:
        """Return a number, or 0 where this kernel has no such file."""
        try:
            return self._number(name)
        except FileNotFoundError:
            return 0

    def _write(self, name: str, value: int) -> None:
        # A file that is not there must not be made.
        descriptor = os.open(self.folder / name, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, b"%d" % value)
        finally:
            os.close(descriptor)


class GroupV1(MemoryGroup):
    """A group of version 1."""

    version = 1

    def charge(self) -> Charge:
        """Return what the group is charged now."""
        return charge_v1(
            parse_stat(self._text("memory.stat")),
            usage=self._number("memory.usage_in_bytes"),
            kernel=self._optional("memory.kmem.usage_in_bytes"),
        )

    def peak(self) -> Charge:
        """Return the kernel's peaks of the whole charge and of its own memory."""
        return Charge(
            kernel=self._optional("memory.kmem.max_usage_in_bytes"),
            whole=self._number("memory.max_usage_in_bytes"),
        )

    @property
    def tells_swap(self) -> bool:
        """Whether the kernel tells what of the group is in swap."""
        return "swap" in parse_stat(self._text("memory.stat"))

    def kills(self) -> int:
        """Return how many processes the limit has killed."""
        return parse_stat(self._text("memory.oom_control")).get("oom_kill", 0)

    def _limit(self, limit_bytes: int) -> None:
        self._write("memory.limit_in_bytes", limit_bytes)
        if (self.folder / "memory.memsw.limit_in_bytes").exists():
            self._write("memory.memsw.limit_in_bytes", limit_bytes)
        self._write("memory.swappiness", 0)

    def _forget_pages(self) -> None:
        with suppress(OSError):  # busy while a process is still there
            self._write("memory.force_empty", 0)


class GroupV2(MemoryGroup):
    """A group of version 2."""

    version = 2

    def charge(self) -> Charge:
        """Return what the group is charged now."""
        return charge_v2(
            parse_stat(self._text("memory.stat")),
            current=self._number("memory.current"),
            swap=self._optional("memory.swap.current"),
        )

    def peak(self) -> Charge:
        """Return the kernel's peaks of the whole charge and of swap."""
        return Charge(swap=self._optional("memory.swap.peak"), whole=self._optional("memory.peak"))

    @property
    def tells_swap(self) -> bool:
        """Whether the kernel tells what of the group is in swap."""
        return (self.folder / "memory.swap.current").exists()

    def kills(self) -> int:
        """Return how many processes the limit has killed."""
        return parse_stat(self._text("memory.events")).get("oom_kill", 0)

    def _limit(self, limit_bytes: int) -> None:
        self._write("memory.max", limit_bytes)
        if (self.folder / "memory.swap.max").exists():
            self._write("memory.swap.max", 0)

    def _forget_pages(self) -> None:
        """Do nothing: the charge goes to the parent with the group."""


@contextmanager
def memory_group(limit_bytes: int) -> Iterator[MemoryGroup]:
    """Make a group below this process's own, or in the nearest place that allows it.

    Raises:
        NotMeasurableError: there is no such place; reason `cgroup`.
    """
    own = Path("/proc/self/cgroup").read_text(encoding="ascii")
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    with make_group(places(own, mounts), limit_bytes) as group:
        yield group


def make_group(candidates: Sequence[Place], limit_bytes: int) -> MemoryGroup:
    """Make a group in the first place that allows it.

    Raises:
        NotMeasurableError: none does; reason `cgroup`.
    """
    reasons = []
    for version, parent in candidates:
        # A folder of version 2 has these files only where its parent hands the controller on.
        if version == 2 and _CONTROLLER not in _delegated(parent):
            reasons.append(f"{parent} does not hand on the memory controller")
            continue
        folder = parent / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
        try:
            return (GroupV1 if version == 1 else GroupV2)(folder, limit_bytes)
        except OSError as error:
            reasons.append(f"{parent}: {error.strerror}")
    told = "; ".join(reasons) or "there is no memory controller"
    raise NotMeasurableError("cgroup", f"no memory cgroup can be made here: {told}")


def _delegated(folder: Path) -> list[str]:
    """Return the controllers that groups in a folder of version 2 have."""
    try:
        return (folder / "cgroup.subtree_control").read_text(encoding="ascii").split()
    except OSError:
        return []
