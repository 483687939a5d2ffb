"""How a start went: its steps, and what was found on the way."""

from __future__ import annotations

from typing import NamedTuple

from appliance.service.housekeeping import MemoryReport
from appliance.service.lock import Lock


class Step(NamedTuple):
    """A step that is done. name: one of `start.STEPS`. seconds: how long it took."""

    name: str
    seconds: float


class ReleaseReport(NamedTuple):
    """A signed release of the software, and whether this process is made of its files.

    name: such as `windhover 1.2.3`. signed_by: what the trust file calls the key.
    """

    name: str
    signed_by: str
    is_same: bool

    def as_json(self) -> dict[str, object]:
        """Return the object of /v1/status and of the log."""
        return {"release": self.name, "signed_by": self.signed_by, "same": self.is_same}


class StartReport(NamedTuple):
    """How the start went, for /v1/status and the line of the log.

    steps: those done so far. seconds: since the beginning. kernels: `prepared`, `user-cache` or
    `compiled`. lock: of the process, None before it. memory: of the weights, None before them.
    release: of the software, None without a manifest or before its digest is there.
    known_answers: small models asked. lost: admissions of an earlier process that were closed.
    notes: lines for a person.
    """

    steps: tuple[Step, ...] = ()
    seconds: float = 0.0
    kernels: str = ""
    lock: Lock | None = None
    memory: MemoryReport | None = None
    release: ReleaseReport | None = None
    known_answers: int = 0
    lost: int = 0
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, object]:
        """Return the object of /v1/status and of the log."""
        memory = None
        if self.memory is not None:
            memory = self.memory._asdict() | {"locked": self.memory.is_locked}
        return {
            "seconds": round(self.seconds, 3),
            "steps": {step.name: round(step.seconds, 3) for step in self.steps},
            "kernels": self.kernels,
            "write_xor_execute": None if self.lock is None else self.lock.state,
            "memory": memory,
            "software": None if self.release is None else self.release.as_json(),
            "known_answers": self.known_answers,
            "lost_admissions": self.lost,
            "notes": list(self.notes),
        }
