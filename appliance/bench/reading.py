"""How fast a file is read: by the ways of `appliance.bench.ways`, the threads, and the lengths."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from appliance.bench.cases import spread
from appliance.bench.cgroup import NotMeasurableError
from appliance.bench.pages import available_bytes, evict
from appliance.bench.ways import WARM, WAYS, Reading, Span, Way, opened_way
from engine.memory.buffers import LARGE_BYTES, mapped_pages
from engine.vqf.format import PAGE_BYTES
from engine.vqf.manifest import Extent

SEQUENTIAL_BYTES: Final = 1 << 20
"""Length of the reads that are called sequential."""

LONGEST_BYTES: Final = 128 << 20
"""Of one read of an extent; larger extents are several."""

_PROBE_BYTES: Final = 64 << 20
_WARM_BYTES_PER_S: Final = 1e9
"""Taken for the page cache where only the time of the whole benchmark is estimated."""


@dataclass(slots=True)
class Speed:
    """One way, with one number of threads and one length of reads: bytes/s in each round."""

    way: str
    pattern: str
    threads: int
    bytes_per_s: list[float] = field(default_factory=list)

    def as_json(self) -> dict[str, object]:
        """Return every number that was measured, and their median."""
        return {
            "way": self.way,
            "pattern": self.pattern,
            "threads": self.threads,
            "bytes_per_s": spread(self.bytes_per_s),
        }


def sequential_spans(start: int, stop: int) -> list[Span]:
    """Cut a part of a file into reads of 1 MiB."""
    return [
        Span(offset, min(SEQUENTIAL_BYTES, stop - offset))
        for offset in range(start, stop, SEQUENTIAL_BYTES)
    ]


def extent_spans(extents: Iterable[Extent], data_offset: int) -> list[Span]:
    """Return one read for each extent in the order of the file, several for very large ones."""
    return [
        Span(data_offset + extent.offset_bytes + start,
             min(LONGEST_BYTES, extent.size_bytes - start))
        for extent in extents
        for start in range(0, extent.size_bytes, LONGEST_BYTES)
    ]  # fmt: skip


def part_of(spans: Sequence[Span], size_bytes: int, number: int) -> list[Span]:
    """Return about `size_bytes` of spans, other ones for each number as long as there are any."""
    total = sum(span.length for span in spans)
    begin = number * size_bytes % total if size_bytes < total else 0
    taken: list[Span] = []
    position = found = 0
    for span in (*spans, *spans):
        if position >= begin and (not taken or found + span.length <= size_bytes):
            taken.append(span)
            found += span.length
        elif taken:
            break
        position += span.length
        if found >= total:
            break
    return taken


def measure_reading(
    path: Path,
    patterns: dict[str, list[Span]],
    *,
    threads: Sequence[int],
    size_bytes: int,
    rounds: int,
    progress: Callable[[int, int], None],
) -> list[Speed]:
    """Measure every way with every number of threads, all of them once in each round.

    Args:
        path: the file.
        patterns: what to read, by the name of its pattern.
        threads: numbers of threads.
        size_bytes: about how much is read for one number.
        rounds: how often each is measured.
        progress: called with (measurements done, all of them).

    Raises:
        OSError: the file cannot be read, or has no O_DIRECT.
        WeightsUncheckedError: it could not be read to the end.
    """
    speeds = [
        Speed(way, pattern, count)
        for way in WAYS
        for pattern in patterns
        for count in threads
        if pattern != "sequential" or not way.startswith("mapped")
    ]
    done = 0
    for number in range(rounds):
        for speed in speeds if number % 2 == 0 else reversed(speeds):
            spans = part_of(patterns[speed.pattern], size_bytes, number)
            speed.bytes_per_s.append(_measure(path, speed.way, spans, speed.threads))
            done += 1
            progress(done, rounds * len(speeds))
    return speeds


def direct_speed(path: Path, size_bytes: int, *, threads: int = 2) -> float:
    """Return how fast the disk gives the beginning of a file, in bytes per second.

    Raises:
        OSError: the file cannot be opened, or has no O_DIRECT.
        NotMeasurableError: it is too short to tell; reason `size`.
    """
    size = min(size_bytes, path.stat().st_size) // PAGE_BYTES * PAGE_BYTES
    if not size:
        raise NotMeasurableError("size", f"{path} has not one page to read")
    return _measure(path, "direct", sequential_spans(0, size), threads)


def require(
    path: Path,
    patterns: dict[str, list[Span]],
    *,
    threads: Sequence[int],
    size_bytes: int,
    rounds: int,
    most_s: float,
) -> tuple[int, int, float]:
    """Estimate what `measure_reading` needs, and refuse where it is not there.

    Returns:
        Bytes from the disk, bytes of memory, seconds.

    Raises:
        OSError: the file cannot be opened, or has no O_DIRECT.
        NotMeasurableError: there is too little memory (reason `memory`), or it would take longer
            than `most_s` (reason `time`).
    """
    lengths = {
        name: sum(span.length for span in part_of(spans, size_bytes, 0))
        for name, spans in patterns.items()
    }
    longest = max(span.length for spans in patterns.values() for span in spans)
    memory = max(lengths.values()) + longest * max(threads)
    available = available_bytes()
    if available < memory:
        message = f"{memory} bytes of memory are needed, and {available} are free"
        raise NotMeasurableError("memory", message)
    from_disk = from_cache = 0
    for way in WAYS:
        for name, length in lengths.items():
            if name == "sequential" and way.startswith("mapped"):
                continue
            # What is read from the page cache has to come there first.
            from_disk += length * len(threads) * rounds
            from_cache += length * len(threads) * rounds if way in WARM else 0
    seconds = from_disk / direct_speed(path, _PROBE_BYTES) + from_cache / _WARM_BYTES_PER_S
    if seconds > most_s:
        message = f"it would take about {seconds:.0f} s, more than {most_s:.0f}"
        raise NotMeasurableError("time", message)
    return from_disk, memory, seconds


def _measure(path: Path, name: str, spans: Sequence[Span], num_threads: int) -> float:
    """Bring the page cache into the state that the way needs, then read; return bytes/s."""
    evict(path)
    if name in WARM:
        with opened_way("cached", path) as way:
            _read(way, spans, 1)
    with opened_way(name, path) as way:
        seconds = _read(way, spans, num_threads)
    return sum(span.length for span in spans) / seconds


def _read(way: Way, spans: Sequence[Span], num_threads: int) -> float:
    """Read spans in order, each by the thread that is free; return how many seconds it took.

    The memory to read into is there before.
    """
    longest = max(span.length for span in spans) if isinstance(way, Reading) else 0
    # What the weights are read into has large pages, which a direct read depends on.
    size_bytes = longest + -longest % LARGE_BYTES
    todo, lock = iter(spans), threading.Lock()

    def work(memory: memoryview) -> None:
        while True:
            with lock:
                span = next(todo, None)
            if span is None:
                return
            way.take(span, memory)

    with ExitStack() as stack:
        memories = [mapped_pages(size_bytes) for _ in range(num_threads)]
        for memory in memories:
            memory.fill(0)  # the pages are taken now
        pool = stack.enter_context(ThreadPoolExecutor(num_threads))
        started_s = time.perf_counter()
        for job in [pool.submit(work, memory.data) for memory in memories]:
            job.result()
        return time.perf_counter() - started_s
