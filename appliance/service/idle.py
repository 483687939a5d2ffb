"""Checkpoints while nothing happens, so that their time says that the appliance was there."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from crypto.errors import CryptoError

if TYPE_CHECKING:
    from appliance.log.log import Log

_LOG: Final = logging.getLogger("windhover.idle")


class IdleCheckpoints:
    """Signs a checkpoint whenever the newest is older than the interval. `stop` waits for it."""

    def __init__(
        self,
        log: Log,
        *,
        interval_s: float,
        on_failure: Callable[[CryptoError], None] = lambda error: None,
    ) -> None:
        """Start the thread.

        Args:
            log: the log.
            interval_s: in seconds, more than 0.
            on_failure: called when one could not be written.
        """
        self._log = log
        self._interval_s = interval_s
        self._on_failure = on_failure
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="windhover-idle", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        seen = self._log.head.checkpoint
        while not self._stopped.wait(self._interval_s):
            head = self._log.head
            if head.checkpoint == seen:
                try:
                    head = self._log.idle_checkpoint()
                except CryptoError as error:
                    _LOG.error("no checkpoint could be written: %s", type(error).__name__)
                    self._on_failure(error)
            seen = head.checkpoint
