"""Seconds of a token where weights are streamed, from bytes and speeds alone.

A token needs all layers, the head and one row of the embedding. What the disk does and what
processors do can at best overlap completely and at worst not at all; the truth lies between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

from appliance.bench.ciphers import CipherSpeed
from appliance.bench.reading import Speed
from engine.vqf.format import CHUNK_BYTES, PAGE_BYTES
from engine.vqf.manifest import Manifest

_COLD_READS = ("direct", "buffered")
_COLD_MAPS = ("mapped-willneed", "mapped-populate")
_WARM_MAPS = ("mapped-warm", "mapped-populate-warm")


class TokenBytes(NamedTuple):
    """What a token needs of a file: all layers, the head, and the page of a row of the embedding.

    The row is 0 where the embedding is the head, and so is needed whole.
    """

    layers: int
    head: int
    row: int

    @property
    def mapped(self) -> int:
        """What pages are brought of."""
        return self.layers + self.head + self.row

    @property
    def verified(self) -> int:
        """What is read to compare it: the row comes with its chunk."""
        return self.layers + self.head + (CHUNK_BYTES if self.row else 0)


def token_bytes(manifest: Manifest) -> TokenBytes:
    """Return what one token needs of a model's file."""
    sizes = {extent.name: extent.size_bytes for extent in manifest.extents if extent.tensors}
    embedding = sizes.pop("embedding")
    head = sizes.pop("final", 0)
    if manifest.config.tied_embeddings:
        return TokenBytes(sum(sizes.values()), head + embedding, 0)
    return TokenBytes(sum(sizes.values()), head, PAGE_BYTES)


@dataclass(frozen=True, slots=True)
class Speeds:
    """Bytes per second: medians, of the ways and threads that are fastest at it.

    Attributes:
        cold_read: from the disk into private memory.
        cold_map: from the disk into a map.
        warm_map: from the page cache into page tables.
        cached: from the page cache into private memory.
        mark: what a chunk that is read again is compared by. cipher: SM4-CTR.
    """

    cold_read: float
    cold_map: float
    warm_map: float
    cached: float
    mark: float
    cipher: float

    @classmethod
    def of(cls, reading: Iterable[Speed], ciphers: Iterable[CipherSpeed], cores: int) -> Speeds:
        """Choose from everything that was measured.

        Args:
            reading: of these what reads extents counts.
            ciphers: of these what has no more threads than cores counts, or has the least.
            cores: how many the process may use.
        """
        ciphers = list(ciphers)
        most_threads = max(cores, min(each.threads for each in ciphers))
        found: dict[str, float] = {}
        for speed in reading:
            if speed.pattern != "sequential":
                rate = median(speed.bytes_per_s)
                found[speed.way] = max(rate, found.get(speed.way, 0.0))
        work: dict[str, float] = {}
        for each in ciphers:
            if each.threads > most_threads:
                continue  # takes its part from others that compute, and only that
            work[each.kind] = max(median(each.bytes_per_s), work.get(each.kind, 0.0))
        return cls(
            max(found[way] for way in _COLD_READS),
            max(found[way] for way in _COLD_MAPS),
            max(found[way] for way in _WARM_MAPS),
            found["cached"],
            work["mark"],
            work["cipher"],
        )


@dataclass(frozen=True, slots=True)
class Prediction:
    """A token of one mode: seconds of the disk, and of processors by what they do.

    Attributes:
        mode: as of `Residency`.
        form: of the file.
        state: as of `MemoryPlan`.
        disk_s: 0 where the page cache has the file.
        work_s: by name; `compute` only where it is known.
        measured_s: medians of runs of this mode, form and state.
    """

    mode: str
    form: str
    state: str
    disk_s: float
    work_s: Mapping[str, float]
    measured_s: tuple[float, ...] = ()

    @property
    def least_s(self) -> float:
        """If disk and processors never waited for each other."""
        return max(self.disk_s, sum(self.work_s.values()))

    @property
    def most_s(self) -> float:
        """If one always waited for the other."""
        return self.disk_s + sum(self.work_s.values())

    def as_json(self) -> dict[str, object]:
        """Return the arithmetic, and each measured number with its ratio to the prediction."""
        return {
            "mode": self.mode,
            "form": self.form,
            "state": self.state,
            "disk_s": self.disk_s,
            "work_s": dict(self.work_s),
            "least_s": self.least_s,
            "most_s": self.most_s,
            "measured": [
                {"s_per_token": s, "of_least": s / self.least_s, "of_most": s / self.most_s}
                for s in self.measured_s
            ],
        }


def predict(
    needed: TokenBytes,
    speeds: Speeds,
    *,
    compute_s: float | None,
    measured: Mapping[tuple[str, str, str], tuple[float, ...]],
) -> list[Prediction]:
    """Return what a token should take in every mode that streams.

    Args:
        needed: bytes of a token.
        speeds: of this machine.
        compute_s: seconds of a token in mode `full`; None where it is not known.
        measured: seconds of a token by mode, form and state.
    """
    compute = {} if compute_s is None else {"compute": compute_s}
    pages, chunks = needed.mapped, needed.verified
    checks = {
        "signed": {"mark": chunks / speeds.mark},
        "sealed": {"mark": chunks / speeds.mark, "cipher": chunks / speeds.cipher},
    }
    faults = {"faults": pages / speeds.warm_map}
    rows: list[tuple[str, str, str, float, dict[str, float]]] = [
        ("stream", "plain", "bounded", pages / speeds.cold_map, faults),
        ("stream", "plain", "cached", 0.0, faults),
    ]
    for form, work in checks.items():
        copy = {"copy": chunks / speeds.cached}
        rows.append(("verified-stream", form, "bounded", chunks / speeds.cold_read, work))
        rows.append(("verified-stream", form, "cached", 0.0, copy | work))
    return [
        Prediction(mode, form, state, disk_s, work | compute,
                   measured.get((mode, form, state), ()))
        for mode, form, state, disk_s, work in rows
    ]  # fmt: skip


def measured_of(evidence: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str, str], list[float]]:
    """Return the seconds of a token by mode, form and state, from the files of `bench memory`."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for each in evidence:
        plan, spent = each["plan"], each["timings"]["s_per_token"]
        if spent is not None:
            key = (plan["mode"], each["file"]["form"], plan["state"])
            found.setdefault(key, []).append(spent["median"])
    return found
