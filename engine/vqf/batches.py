"""Work over chunks in batches of equal length, shared by several threads."""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from engine.vqf.chunks import Chunk


def batches(chunks: Iterable[Chunk], most: int) -> list[tuple[Chunk, ...]]:
    """Put chunks of one length together, at most `most` at a time, in the order of the file."""
    by_length: dict[int, list[Chunk]] = defaultdict(list)
    for chunk in chunks:
        by_length[chunk.length].append(chunk)
    out = [
        tuple(same[start : start + most])
        for same in by_length.values()
        for start in range(0, len(same), most)
    ]
    return sorted(out, key=lambda batch: batch[0].offset)


def run_batches(
    work: Callable[[tuple[Chunk, ...]], None],
    todo: Sequence[tuple[Chunk, ...]],
    num_threads: int,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Call `work` for every batch; the first failure ends all of it and passes through.

    Args:
        work: called from several threads at once.
        todo: the batches.
        num_threads: how many at once; 1 is the calling thread.
        progress: called from the calling thread with (bytes done, bytes in all).
    """
    total = sum(chunk.length for batch in todo for chunk in batch)
    done = 0

    def report(batch: tuple[Chunk, ...]) -> None:
        nonlocal done
        done += sum(chunk.length for chunk in batch)
        if progress is not None:
            progress(done, total)

    if num_threads == 1:
        for batch in todo:
            work(batch)
            report(batch)
        return
    with ThreadPoolExecutor(num_threads) as pool:
        running = {pool.submit(work, batch): batch for batch in todo}
        try:
            for future in as_completed(running):
                future.result()
                report(running[future])
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
