"""The benchmark of the log: what signatures, the disk and the log itself add to an answer.

A pair is an admission and its closing statement, each an object of the usual size that is signed
and verified inside the log, under a signed and verified checkpoint. Its time is taken by the thread
that waits for it; the part in which the batches waited for the disk is given beside it.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from appliance.bench.log_growth import TIME_MS, grow_log
from appliance.bench.machine import load_average, machine_facts
from appliance.log.anchor import FileAnchor
from appliance.log.batch import Make, Position
from appliance.log.create import create_log
from appliance.log.log import Log
from crypto import sm2
from crypto.admission import ADMISSION_TYPE
from crypto.cbor import encode
from crypto.cose import sign1
from crypto.signer import Signer, SoftwareSigner
from crypto.statement import STATEMENT_TYPE

ADMISSION_BYTES: Final = 600
STATEMENT_BYTES: Final = 1500

_ISSUER: Final = "benchmark"
_WARM_UP: Final = 3


@dataclass(slots=True)
class Times:
    """Durations of one kind of work in seconds."""

    name: str
    seconds: list[float] = field(default_factory=list)

    def percentile(self, percent: int) -> float:
        """Return the duration that so many percent do not exceed."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]

    def as_json(self) -> dict[str, object]:
        """Return what was measured."""
        return {
            "name": self.name,
            "count": len(self.seconds),
            "median_ms": round(statistics.median(self.seconds) * 1e3, 4),
            "p99_ms": round(self.percentile(99) * 1e3, 4),
        }


@dataclass(slots=True)
class LogResults:
    """Everything that was measured.

    Attributes:
        folder: where the logs lay.
        times: what was timed.
        entries_per_batch: by number of threads.
        machine: facts of it.
        load_before: load average at the start.
    """

    folder: str
    times: list[Times] = field(default_factory=list)
    entries_per_batch: dict[int, float] = field(default_factory=dict)
    machine: dict[str, object] = field(default_factory=machine_facts)
    load_before: float = field(default_factory=load_average)

    def as_json(self) -> dict[str, object]:
        """Return the evidence: every number beside what it was measured on."""
        return {
            "schema": "windhover-bench-log/1",
            "machine": self.machine,
            "load_average": {"before": self.load_before, "after": load_average()},
            "folder": self.folder,
            "times": [times.as_json() for times in self.times],
            "entries_per_batch": self.entries_per_batch,
        }


def measure_log(
    folder: Path,
    pairs: int,
    grown_segments: int,
    progress: Callable[[int, int], None],
) -> LogResults:
    """Measure a log in a temporary folder inside `folder`.

    Args:
        folder: on the disk that is to be measured.
        pairs: how many admissions and closings each case has.
        grown_segments: segments of 65,536 simulated entries before the last case; 0: no such case.
        progress: is told how many cases are done, and of how many.

    Raises:
        OSError, WriteError, LogUnavailableError: the disk refused.
    """
    signer = SoftwareSigner(sm2.generate())
    results = LogResults(str(folder))
    total = 5 + bool(grown_segments)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        base = Path(name)
        progress(0, total)
        results.times.append(_syncs(base / "sync", pairs))
        progress(1, total)
        results.times.append(_signatures(signer, pairs))
        for done, threads in enumerate((1, 8), 2):
            progress(done, total)
            case = base / f"log{threads}"
            anchor = FileAnchor(base / f"anchor{threads}")
            create_log(case, signer=signer, issuer=_ISSUER, anchor=anchor)
            with Log(case, signer=signer, issuer=_ISSUER, anchor=anchor) as log:
                results.times += _pairs(log, signer, threads, pairs, results)
        progress(4, total)
        if grown_segments:
            anchor = FileAnchor(base / "anchor")
            (base / "archive").mkdir()
            grow_log(base / "grown", grown_segments, signer=signer, issuer=_ISSUER, anchor=anchor)
            progress(5, total)
            with Log(
                base / "grown",
                signer=signer,
                issuer=_ISSUER,
                anchor=anchor,
                archive=base / "archive",
                clock=lambda: TIME_MS,
            ) as log:
                after = f"after {log.head.size - 1:,} entries"
                results.times += _pairs(log, signer, 1, pairs, results, suffix=f", {after}")
        progress(total, total)
    return results


def _syncs(path: Path, count: int) -> Times:
    """Time a write of 4,096 bytes at the end of a file, and its sync."""
    times = Times("fdatasync of 4 KiB")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        for number in range(count + _WARM_UP):
            os.write(descriptor, bytes(4096))
            started = time.perf_counter()
            os.fdatasync(descriptor)
            if number >= _WARM_UP:
                times.seconds.append(time.perf_counter() - started)
    finally:
        os.close(descriptor)
    return times


def _signatures(signer: Signer, count: int) -> Times:
    """Time two signatures, each verified: an entry and its checkpoint."""
    times = Times("two SM2 signatures, verified")
    message = bytes(STATEMENT_BYTES)
    for number in range(count + _WARM_UP):
        started = time.perf_counter()
        signer.sign(message)
        signer.sign(message)
        if number >= _WARM_UP:
            times.seconds.append(time.perf_counter() - started)
    return times


def _pairs(
    log: Log,
    signer: Signer,
    threads: int,
    pairs: int,
    results: LogResults,
    *,
    suffix: str = "",
) -> list[Times]:
    """Append pairs from so many threads; each thread waits for what it appends."""
    plural = "s" if threads > 1 else ""
    name = f"{threads} thread{plural}{suffix}"
    admissions, closings = Times(f"admission, {name}"), Times(f"closing, {name}")
    waits = Times(f"  of that for the disk, per batch, {name}")
    heads: set[bytes] = set()
    lock = threading.Lock()

    def append(times: Times, **settings: object) -> tuple[int, object]:
        typ, length = (
            (STATEMENT_TYPE, STATEMENT_BYTES)
            if "closes" in settings
            else (ADMISSION_TYPE, ADMISSION_BYTES)
        )
        waited_ns, started = log.sync_ns, time.perf_counter()
        committed = log.append(_object(signer, typ, length), **settings)  # type: ignore[arg-type]
        took = time.perf_counter() - started
        with lock:
            times.seconds.append(took)
            if threads == 1:
                waits.seconds.append((log.sync_ns - waited_ns) / 1e9)
            heads.add(committed.head.checkpoint)
        return committed.position.index, committed.reservation

    def work() -> None:
        for _ in range(-(-pairs // threads)):
            index, room = append(admissions, admits=True, reserve_bytes=STATEMENT_BYTES + 512)
            append(closings, closes=index, reservation=room, include=(index,))

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    num_entries = len(admissions.seconds) + len(closings.seconds)
    results.entries_per_batch.setdefault(threads, round(num_entries / len(heads), 2))
    return [admissions, closings, waits] if waits.seconds else [admissions, closings]


def _object(signer: Signer, typ: str, length: int) -> Make:
    """Return what makes an object of about the usual length."""

    def make(position: Position) -> bytes:
        payload = encode({1: position.log_id, 2: position.index, 3: bytes(length - 200)})
        return sign1(payload, typ=typ, signer=signer)

    return make
