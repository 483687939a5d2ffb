"""A log of ten million entries is appended to, proved and started as one of a thousand."""

from __future__ import annotations

import os
import tracemalloc
from contextlib import contextmanager
from statistics import median

import pytest

from appliance.bench.log_growth import TIME_MS, grow_log, simulated_leaf
from appliance.log.anchor import FileAnchor
from appliance.log.errors import LogUnavailableError
from appliance.log.files import LogFiles
from appliance.log.layout import SEGMENT_ENTRIES
from appliance.log.log import Log
from crypto.merkle import verify_consistency, verify_inclusion
from tests.appliance.log.case import SIGNER, Clock, entry, verify

APPENDS = 30
TEN_MILLION = 10_000_000 // SEGMENT_ENTRIES + 1


class Traffic:
    """Bytes and calls that go through the operating system."""

    def __init__(self):
        self.read = self.written = self.syncs = self.opens = 0


@contextmanager
def traffic(monkeypatch):
    """Count what is read and written inside."""
    found = Traffic()
    real = {name: getattr(os, name) for name in ("pread", "pwrite", "fdatasync", "open")}

    def pread(descriptor, length, offset):
        data = real["pread"](descriptor, length, offset)
        found.read += len(data)
        return data

    def pwrite(descriptor, data, offset):
        written = real["pwrite"](descriptor, data, offset)
        found.written += written
        return written

    def fdatasync(descriptor):
        found.syncs += 1
        real["fdatasync"](descriptor)

    def open_(*arguments, **settings):
        found.opens += 1
        return real["open"](*arguments, **settings)

    with monkeypatch.context() as patch:
        for name, call in (
            ("pread", pread), ("pwrite", pwrite), ("fdatasync", fdatasync), ("open", open_),
        ):  # fmt: skip
            patch.setattr(os, name, call)
        yield found


def measure(base, num_segments, monkeypatch):
    """Return what a start, an append and a proof cost with so many full segments before."""
    base.mkdir()
    (base / "archive").mkdir()
    anchor = FileAnchor(base / "anchor")
    head = grow_log(base / "log", num_segments, signer=SIGNER, issuer="tests", anchor=anchor)
    settings = {
        "signer": SIGNER, "issuer": "tests", "anchor": anchor, "archive": base / "archive",
        "clock": Clock(TIME_MS),
    }  # fmt: skip
    tracemalloc.start()
    with Log(base / "log", **settings) as log:
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        costs, peaks = [], []
        for number in range(APPENDS):
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            with traffic(monkeypatch) as found:
                verify(log.append(entry(number)))
            costs.append(found)
            peaks.append(tracemalloc.get_traced_memory()[1] - before)
        tracemalloc.stop()
        size = log.head.size
        assert size == head.size + APPENDS + 1
        with traffic(monkeypatch) as proving:
            for turn in range(50):
                index = head.size * turn // 50
                path = log.files.inclusion(index, size)
                verify_inclusion(simulated_leaf(index), index, size, path, log.head.root)
                path = log.files.consistency(index, size)
                verify_consistency(index, log.files.root(index), size, log.head.root, path)
        with pytest.raises(LogUnavailableError) as caught:
            log.files.entry(5)
        assert caught.value.reason == "archive"
    return {
        "entries": head.size,
        "held": held,
        "peak": median(peaks),
        "written": median(cost.written for cost in costs),
        "read": median(cost.read for cost in costs),
        "read_most": max(cost.read for cost in costs),
        "syncs": median(cost.syncs for cost in costs),
        "proof_read": proving.read / 100,
    }


def compare(small, large):
    """Compare: an append costs the same but for the logarithm, in bytes and not in time."""
    more_levels = (large["entries"] // small["entries"]).bit_length()
    assert large["syncs"] == small["syncs"] == 1
    assert abs(large["written"] - small["written"]) < 64
    assert large["read_most"] <= small["read_most"] + 8 * 32 * more_levels
    assert large["peak"] < small["peak"] + 20_000
    assert large["proof_read"] <= small["proof_read"] + 8 * 32 * more_levels
    assert large["held"] < 4_000_000 + large["entries"] // SEGMENT_ENTRIES * 10_000


@pytest.mark.slow
@pytest.mark.ci
def test_an_append_costs_the_same_after_many_entries(tmp_path, monkeypatch):
    small = measure(tmp_path / "1", 1, monkeypatch)
    large = measure(tmp_path / "2", 2, monkeypatch)
    compare(small, large)


@pytest.mark.slow
def test_ten_million_entries(tmp_path, monkeypatch):
    small = measure(tmp_path / "small", 1, monkeypatch)
    middle = measure(tmp_path / "middle", 1_000_000 // SEGMENT_ENTRIES + 1, monkeypatch)
    large = measure(tmp_path / "large", TEN_MILLION, monkeypatch)
    for found in (small, middle, large):
        print(found)
    assert large["entries"] >= 10_000_000
    compare(small, middle)
    compare(small, large)
    files = LogFiles(tmp_path / "large" / "log", tmp_path / "large" / "archive")
    assert files.away == len(files.closed) == TEN_MILLION
