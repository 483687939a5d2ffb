"""A thread that looks at a group and its process every 10 ms and keeps the largest figures."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from appliance.bench.cgroup import MemoryGroup
from appliance.bench.charge import Charge
from appliance.bench.mappings import Mapped, mapped

INTERVAL_S: Final = 0.01
_MAPPINGS_INTERVAL_S: Final = 0.25
"""Listing mappings holds up the process for some milliseconds; libraries come and do not go."""


class Sampler:
    """Peaks of a group while it is used as a context manager.

    Attributes:
        phases: the peaks of each phase, by its name.
        mapped: the largest file mappings of the process.
        num_samples: how often the group was looked at.
    """

    def __init__(
        self, group: MemoryGroup, process: int, device: int, inode: int, phase: str
    ) -> None:
        """Watch a group and one of its processes.

        Args:
            group: the group.
            process: number of the process whose mappings are summed up.
            device: of the file whose mappings are counted apart, as in `os.stat`.
            inode: of the same file.
            phase: name of the first phase.
        """
        self.phases: dict[str, Charge] = {}
        self.mapped = Mapped(0, 0)
        self.num_samples = 0
        self._group = group
        self._smaps = Path(f"/proc/{process}/smaps")
        self._file = (device, inode)
        self._phase = phase
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="memory-sampler", daemon=True)

    def __enter__(self) -> Self:
        """Begin to watch."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop watching."""
        self._ended.set()
        self._thread.join()

    @property
    def peak(self) -> Charge:
        """The largest of all phases, and of what the kernel itself keeps."""
        peak = self._group.peak()
        for charge in list(self.phases.values()):
            peak = peak.largest(charge)
        return peak

    def enter(self, phase: str) -> None:
        """Count what follows as part of another phase; what is there now belongs to both."""
        self.sample()
        self._phase = phase
        self.sample()

    def sample(self) -> None:
        """Look once more, mappings included."""
        self._look()
        self._look_at_mappings()

    def _run(self) -> None:
        next_mappings_s = 0.0
        while not self._ended.wait(INTERVAL_S):
            self._look()
            if time.monotonic() >= next_mappings_s:
                self._look_at_mappings()
                next_mappings_s = time.monotonic() + _MAPPINGS_INTERVAL_S

    def _look(self) -> None:
        charge = self._group.charge()
        with self._lock:
            self.phases[self._phase] = self.phases.get(self._phase, Charge()).largest(charge)
            self.num_samples += 1

    def _look_at_mappings(self) -> None:
        # The process may have ended meanwhile.
        with suppress(FileNotFoundError, ProcessLookupError), self._smaps.open() as lines:
            found = mapped(lines, *self._file)
            with self._lock:
                self.mapped = Mapped(*map(max, self.mapped, found))
