"""What goes through the log: the place an entry gets, the entry, and what its writer gets back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeAlias

from appliance.log.layout import ENTRY
from appliance.log.objects import Head
from appliance.log.space import Reservation


@dataclass(frozen=True, slots=True)
class Position:
    """The place of an entry that is about to be made.

    Attributes:
        log_id: 32 bytes.
        index: of the entry, its sequence number.
        earlier_size: size of the last head that was committed before, at most the index.
        earlier_root: 32 bytes, its root.
        time_ms: what the log writes down as the time, milliseconds since 1970-01-01 UTC.
    """

    log_id: bytes
    index: int
    earlier_size: int
    earlier_root: bytes
    time_ms: int


Make: TypeAlias = Callable[[Position], bytes]
"""Returns the signed object for a place; whatever it raises stops the log."""


@dataclass(frozen=True, slots=True)
class Committed:
    """An entry that is durable, with what proves it.

    Attributes:
        position: its place.
        entry: the object.
        head: a checkpoint over it, which is durable too.
        inclusion: path of the entry in that checkpoint's tree.
        inclusions: paths of the other entries that were asked for, by index.
        consistency: path from the position's earlier head to the checkpoint.
        reservation: what was reserved for later, if anything was.
    """

    position: Position
    entry: bytes
    head: Head
    inclusion: Sequence[bytes]
    inclusions: Mapping[int, Sequence[bytes]]
    consistency: Sequence[bytes]
    reservation: Reservation | None = None


@dataclass(slots=True)
class Request:
    """An entry that waits for the committer; without `make` it asks for a checkpoint only.

    Attributes:
        make: makes the object.
        kind: of the record.
        refers: of a closing statement the index of its admission.
        include: indexes whose inclusion is wanted besides.
        room: what is reserved for the record.
        kept: what is reserved for later.
        done: becomes the `Committed`, or the head.
    """

    make: Make | None
    kind: int = ENTRY
    refers: int = 0
    include: tuple[int, ...] = ()
    room: Reservation | None = None
    kept: Reservation | None = None
    done: Future[Committed | Head] = field(default_factory=Future)
