"""The benchmark of a disk: what it gives, what checking costs, and what that makes of a token."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

from appliance.bench.ciphers import CipherSpeed, measure_ciphers
from appliance.bench.disk import Disk
from appliance.bench.machine import load_average, machine_facts
from appliance.bench.prediction import (
    Prediction,
    Speeds,
    TokenBytes,
    measured_of,
    predict,
    token_bytes,
)
from appliance.bench.reading import (
    Speed,
    extent_spans,
    measure_reading,
    require,
    sequential_spans,
)
from engine.vqf.file import VqfFile

SCHEMA: Final = "windhover-bench-io/2"


@dataclass(frozen=True, slots=True)
class IoPlan:
    """What to measure.

    Attributes:
        threads: numbers of threads.
        size_bytes: about how much is read for one number.
        rounds: how often each is measured.
        most_s: longest time that it may take.
    """

    threads: tuple[int, ...] = (1, 2, 4)
    size_bytes: int = 512_000_000
    rounds: int = 3
    most_s: float = 900.0


@dataclass(frozen=True, slots=True)
class IoResults:
    """What was measured, and what follows from it."""

    name: str
    model_digest: str
    disk: Disk
    plan: IoPlan
    needed: TokenBytes
    reading: list[Speed]
    bulk: str
    ciphers: list[CipherSpeed]
    speeds: Speeds
    predictions: list[Prediction]
    machine: dict[str, object] = field(default_factory=machine_facts)
    load_after: float = field(default_factory=load_average)

    def as_json(self) -> dict[str, object]:
        """Return the evidence; its fields are documented in README.md."""
        names = ("cold_read", "cold_map", "warm_map", "cached", "mark", "cipher")
        return {
            "schema": SCHEMA,
            "machine": self.machine,
            "load_average": self.load_after,
            "file": {"name": self.name, "model_digest": self.model_digest},
            "disk": self.disk._asdict(),
            "plan": {
                "threads": list(self.plan.threads),
                "size_bytes": self.plan.size_bytes,
                "rounds": self.plan.rounds,
            },
            "token_bytes": self.needed._asdict(),
            "reading": [speed.as_json() for speed in self.reading],
            "kernels": self.bulk,
            "ciphers": [speed.as_json() for speed in self.ciphers],
            "speeds": {f"{name}_bytes_per_s": getattr(self.speeds, name) for name in names},
            "predictions": [prediction.as_json() for prediction in self.predictions],
        }


def measure_io(
    file: VqfFile,
    plan: IoPlan,
    evidence: Sequence[Mapping[str, Any]],
    *,
    announce: Callable[[int, int, float], None],
    progress: Callable[[int, int], None],
) -> IoResults:
    """Measure the disk of an open file, and predict.

    Args:
        file: the weights; only the manifest is used of what is open.
        plan: what to measure.
        evidence: what `bench memory` found with the same model.
        announce: called before anything is measured with bytes from the disk, bytes of memory, and
            seconds that it will need.
        progress: called with (measurements done, all of them).

    Raises:
        OSError: the file cannot be read, or its file system has no O_DIRECT.
        NotMeasurableError: there is too little memory, or it would take too long.
        WeightsUncheckedError: the file could not be read to the end.
    """
    path: Path = file.path
    area, length = file.preamble.data_offset, file.manifest.data_length_bytes
    patterns = {
        "sequential": sequential_spans(area, area + length),
        "extents": extent_spans(file.manifest.extents, area),
    }
    size, threads, rounds = min(plan.size_bytes, length), plan.threads, plan.rounds
    announce(
        *require(path, patterns, threads=threads, size_bytes=size, rounds=rounds,
                 most_s=plan.most_s)
    )  # fmt: skip
    reading = measure_reading(
        path, patterns, threads=threads, size_bytes=size, rounds=rounds, progress=progress
    )
    bulk, ciphers = measure_ciphers(threads, rounds)
    speeds = Speeds.of(reading, ciphers, len(os.sched_getaffinity(0)))
    needed = token_bytes(file.manifest)
    found = measured_of(evidence)
    full = [value for (mode, _, _), values in found.items() if mode == "full" for value in values]
    predictions = predict(
        needed,
        speeds,
        compute_s=median(full) if full else None,
        measured={key: tuple(values) for key, values in found.items()},
    )
    return IoResults(
        path.name, file.model_digest.hex(), Disk.of(path), plan, needed, reading, bulk, ciphers,
        speeds, predictions,
    )  # fmt: skip
