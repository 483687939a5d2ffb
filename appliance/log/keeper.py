"""When the anchor is written: at idle checkpoints, and at most a second after a commit."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from appliance.log.anchor import Anchor, AnchorStore, higher_floors
from appliance.log.objects import Head
from appliance.log.space import lacks_room
from crypto.errors import WriteError
from crypto.floors import Floors

INTERVAL_S: Final = 1.0


class AnchorKeeper:
    """Writes an anchor, whose numbers only rise.

    Attributes:
        lacking: why there was no room for the anchor when it was last due; None where there was.
    """

    def __init__(
        self, store: AnchorStore, started_with: Anchor | None, floors: Callable[[], Floors]
    ) -> None:
        """Write to `store`; `floors` gives what is remembered besides the head."""
        self._store = store
        self._floors = floors
        self._least = Floors() if started_with is None else started_with.floors
        self._written: Head | None = None
        self._written_s = time.monotonic()
        self.lacking: str | None = None

    def wait_s(self, head: Head) -> float | None:
        """Return how long the anchor may still stay as it is; None where it has this head."""
        if head is self._written:
            return None
        return max(0.0, self._written_s + INTERVAL_S - time.monotonic())

    def is_due(self, head: Head) -> bool:
        """Say whether the anchor has to be written now."""
        return self.wait_s(head) == 0.0

    def write(self, head: Head) -> None:
        """Write the anchor of a head; where there is no room for it, it is due again in a second.

        Raises:
            CryptoError, OSError: it could not be written, or the floors not be read.
        """
        self._least = higher_floors(self._least, self._floors())
        anchor = Anchor(head.log_id, head.size, head.root, head.time_ms, self._least)
        self._written_s = time.monotonic()
        try:
            self._store.write(anchor)
        except WriteError as error:
            if not lacks_room(error):
                raise
            self.lacking = str(error)
            return
        self._written, self.lacking = head, None
