"""Pieces of one call shared among threads that stay."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Final

from engine.errors import ConfigError

MAX_THREADS: Final = 256


class Sharing:
    """Threads that work on the pieces of a call; calls may come from several threads."""

    def __init__(self, num_threads: int) -> None:
        """Start none yet.

        Args:
            num_threads: how many compute at once; one more waits for the disk meanwhile.

        Raises:
            ConfigError: not 1..256 threads.
        """
        if not 1 <= num_threads <= MAX_THREADS:
            raise ConfigError(f"1..{MAX_THREADS} threads can share the work, not {num_threads}")
        self.num_workers = num_threads + 1
        """How many pieces are worked on at once."""
        self.computing = threading.BoundedSemaphore(num_threads)
        """Held by a piece while it computes."""
        self._pool = ThreadPoolExecutor(self.num_workers, "spill")

    def run(self, work: Callable[[range], None], pieces: Sequence[range]) -> None:
        """Call `work` for every piece; a failure ends all of it and passes through.

        When this returns or raises, no thread works on a piece any more.
        """
        if len(pieces) == 1:
            work(pieces[0])
            return
        running = [self._pool.submit(work, piece) for piece in pieces]
        try:
            done, _ = wait(running, return_when=FIRST_EXCEPTION)
        finally:
            for future in running:
                future.cancel()
            wait(running)
        for future in done:
            future.result()

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()
