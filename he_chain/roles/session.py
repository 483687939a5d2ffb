"""What a key holder remembers of a run: its tokens, and which hop is due.

Hops come in one order: the layers of a position, its logits where they are wanted, the next
position. A hop that was begun may be begun again, since an evaluator that was killed repeats it;
the next one may when this one's exchanges have all been answered. The file is written before the
first and before the last answer of a hop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from crypto.cbor import encode
from crypto.cbor_map import CborMap
from crypto.errors import FormatError
from he_chain.errors import ProtocolError
from he_chain.records.run_folder import read_whole, write_whole
from he_chain.wire import NO_LAYER

SESSION: Final = "session.cbor"
MAX_TOKENS: Final = 4096
_KEYS: Final = frozenset(
    {"run", "ids", "prompt", "most", "layers", "position", "layer", "answered"}
)
_MAX_BYTES: Final = 1 << 16
_PRIVATE: Final = 0o600


@dataclass(frozen=True)
class Session:
    """A run as its key holder knows it."""

    ids: tuple[int, ...]
    """The prompt and what has been generated: a secret."""
    num_prompt: int
    max_positions: int
    """So many positions may be computed."""
    num_layers: int
    run: bytes = b""
    """16 bytes; empty until an evaluator begins the run."""
    position: int = 0
    layer: int = NO_LAYER - 1
    """Of the last hop that was begun; NO_LAYER is the logits', one less before any."""
    answered: bool = True
    """Whether its last exchange has been."""

    def begin(self, position: int, layer: int) -> Session:
        """Return the session with a hop begun.

        Raises:
            ProtocolError: it is neither the last hop begun nor one that may follow it now.
        """
        if (position, layer) == (self.position, self.layer):
            return self
        if not self.answered or (position, layer) not in self._next():
            raise ProtocolError(f"hop {position}/{layer} is not due")
        if position >= len(self.ids):
            raise ProtocolError(f"there is no token at position {position}")
        return replace(self, position=position, layer=layer, answered=False)

    def _next(self) -> list[tuple[int, int]]:
        """Return the hops that may follow."""
        following = (self.position + 1, 0)
        if self.layer < NO_LAYER:
            return [(0, 0)]
        if self.layer == NO_LAYER:
            return [following] if following[0] < self.max_positions else []
        if self.layer + 1 < self.num_layers:
            return [(self.position, self.layer + 1)]
        skip = [following] if following[0] < self.num_prompt else []
        return [(self.position, NO_LAYER), *skip]

    def finish(self) -> Session:
        """Return the session with the current hop's exchanges all answered."""
        return self if self.answered else replace(self, answered=True)

    def with_token(self, token: int) -> Session:
        """Return the session with the token behind the current position, if it is a new one."""
        if self.position != len(self.ids) - 1 or len(self.ids) >= self.max_positions:
            return self
        return replace(self, ids=(*self.ids, token))

    def save(self, folder: Path) -> None:
        """Write it, whole or not at all; WriteError."""
        value: dict[str, int | bytes | list[int]] = {
            "run": self.run,
            "ids": list(self.ids),
            "prompt": self.num_prompt,
            "most": self.max_positions,
            "layers": self.num_layers,
            "position": self.position,
            "layer": self.layer - NO_LAYER + 1,
            "answered": int(self.answered),
        }
        write_whole(folder / SESSION, encode(value), force=True, mode=_PRIVATE)


def new_session(ids: Sequence[int], *, max_positions: int, num_layers: int) -> Session:
    """Return the session of a prompt that no evaluator has begun.

    Raises:
        ProtocolError: no tokens, or more than `max_positions`.
    """
    if not 0 < len(ids) <= max_positions <= MAX_TOKENS:
        raise ProtocolError(f"{len(ids)} tokens for {max_positions} positions")
    return Session(tuple(int(i) for i in ids), len(ids), max_positions, num_layers)


def load_session(folder: Path) -> Session:
    """Read a session; ProtocolError where there is none or it is damaged."""
    try:
        value = CborMap(read_whole(folder / SESSION, _MAX_BYTES), _KEYS, max_bytes=_MAX_BYTES)
        return Session(
            value.integers("ids", counts=(1, MAX_TOKENS), least=0, most=1 << 30),
            value.integer("prompt", 1, MAX_TOKENS),
            value.integer("most", 1, MAX_TOKENS),
            value.integer("layers", 1, 1000),
            value.octets("run", 0, 16),
            value.integer("position", 0, MAX_TOKENS),
            value.integer("layer", 0, 1000) + NO_LAYER - 1,
            bool(value.integer("answered", 0, 1)),
        )
    except FormatError as error:
        raise ProtocolError(f"the session is damaged: {error}") from None
