"""A watch on the thread that computes: a step that does not return ends the service, not the wait.

Nothing in the process can end such a step. What runs is closed with an error, whose statements say
so, and nothing is answered until the process was started again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from appliance.service.worker import EngineWorker

_MOST_LOOK_S: Final = 1.0


class StallWatch:
    """Looks at a worker now and then. `stop` waits for it."""

    def __init__(
        self, worker: EngineWorker, *, limit_s: float, on_stall: Callable[[], None]
    ) -> None:
        """Start the thread.

        Args:
            worker: which is abandoned when it stalls.
            limit_s: how long one step may take, seconds.
            on_stall: called once, before.
        """
        self._worker = worker
        self._limit_s = limit_s
        self._on_stall = on_stall
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="windhover-stall", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(min(_MOST_LOOK_S, self._limit_s / 4)):
            if self._worker.step_s > self._limit_s:
                self._on_stall()
                self._worker.abandon()
                return
