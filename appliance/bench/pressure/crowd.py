"""The clients, all at once: each does its deeds until the time is up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from appliance.bench.pressure.caller import Caller
from appliance.bench.pressure.deeds import Deed, Deeds, Facts, Key
from appliance.bench.pressure.references import REFERENCES, Drawn, References
from appliance.bench.pressure.results import Plan
from appliance.bench.pressure.tally import Tally

_WRONG_KEY: Final = "wh-aaaaaaaa-" + "A" * 43
_JOIN_S: Final = 300
_PAUSE_S: Final = 0.2


class Crowd:
    """Clients of one service, and one that asks the references among them."""

    def __init__(
        self,
        url: str,
        keys: tuple[str, ...],
        facts: Facts,
        references: References,
        plan: Plan,
    ) -> None:
        """Prepare.

        Args:
            url: of the service.
            keys: those of the clients, dealt out in turn.
            facts: of the service.
            references: asked meanwhile.
            plan: how many, how long.
        """
        self.tally = Tally()
        self.drawn: list[tuple[str, Drawn, str]] = []
        """Name, result and attestation of each reference that was asked under load."""

        self._url = url
        self._keys = keys
        self._facts = facts
        self._references = references
        self._plan = plan
        self._is_over = threading.Event()

    def press(self, progress: Callable[[int, int], None]) -> int:
        """Let all of them work for the planned time; return how many did not come to an end.

        Args:
            progress: is told how many seconds have passed, and of how many.
        """
        threads = [
            threading.Thread(target=self._client, args=(number,), daemon=True)
            for number in range(self._plan.clients)
        ]
        threads.append(threading.Thread(target=self._refer, daemon=True))
        begun = time.monotonic()
        for thread in threads:
            thread.start()
        while (passed := time.monotonic() - begun) < self._plan.seconds:
            progress(int(passed), int(self._plan.seconds))
            time.sleep(min(1.0, self._plan.seconds - passed))
        self._is_over.set()
        limit = time.monotonic() + _JOIN_S
        for thread in threads:
            thread.join(max(0.0, limit - time.monotonic()))
        return sum(thread.is_alive() for thread in threads)

    def _client(self, number: int) -> None:
        key = number % len(self._keys)
        deeds = Deeds(self._facts, self._plan.seed, number)
        try:
            while not self._is_over.is_set():
                deed = deeds.next()
                while (wait_s := self._do(deed, key)) is not None:
                    if self._is_over.wait(wait_s):
                        return
        except Exception as error:
            self.tally.fault(f"client {number} has failed: {type(error).__name__}: {error}")

    def _do(self, deed: Deed, key: int) -> int | None:
        texts = {Key.OWN: self._keys[key], Key.WRONG: _WRONG_KEY, Key.NONE: None}
        caller = Caller(self._url, texts[deed.key])
        got = caller.send(deed.path, deed.body, deed.manner, deed.nonce)
        if got.failure is not None:
            # A service that is gone is not asked as fast as a processor can.
            self._is_over.wait(_PAUSE_S)
        return self.tally.add(deed, got, key)

    def _refer(self) -> None:
        turn = 0
        try:
            while not self._is_over.is_set():
                for name in REFERENCES:
                    # By turns with what is in the prefix cache, and without.
                    key = f"turn {turn}" if turn % 2 else None
                    self.drawn.append((name, *self._references.ask(name, key)))
                    if self._is_over.wait(_PAUSE_S):
                        return
                turn += 1
        except Exception as error:
            self.tally.fault(f"a reference under load: {type(error).__name__}: {error}")
