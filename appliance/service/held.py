"""An answer that somebody holds: when nobody does any more, it is closed."""

from __future__ import annotations

from collections.abc import Callable

from appliance.service.life import Life


class Held:
    """What holds an admitted request."""

    def __init__(self, life: Life, reap: Callable[[Life], None]) -> None:
        """Take an admitted request over; `reap` is called for one that was left open."""
        self._life = life
        self._reap = reap

    def __del__(self) -> None:
        """Have it closed elsewhere: this can be any thread, also the one that computes."""
        life: Life | None = getattr(self, "_life", None)
        if life is not None and not life.is_closed:
            self._reap(life)

    @property
    def attestation(self) -> str:
        """The id of its attestation, known from the beginning."""
        return self._life.id

    @property
    def life(self) -> Life:
        """What it is closed with."""
        return self._life
