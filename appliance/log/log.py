"""The log of an appliance while it is written: entries in, durable checkpoints and proofs out.

A committer thread takes whatever waits, lets each entry be made at its place, signs a checkpoint
over all of them, writes and syncs once, and only then answers. Source: appliance/log/README.md.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self, cast

from appliance.log.anchor import AnchorStore
from appliance.log.batch import Committed, Make, Request
from appliance.log.clock import LogClock, now_ms
from appliance.log.committer import Committer
from appliance.log.errors import LogUnavailableError
from appliance.log.files import Entry, LogFiles
from appliance.log.keeper import AnchorKeeper
from appliance.log.layout import (
    ADMISSION,
    CLOSING,
    ENTRY,
    MAX_BATCH_ENTRIES,
    MAX_RECORD_BYTES,
    OVERHEAD_BYTES,
)
from appliance.log.lock import FolderLock
from appliance.log.objects import Head
from appliance.log.space import Reservation
from appliance.log.start import check_anchor, check_signature
from appliance.log.writer import Limits, SegmentWriter
from crypto.errors import WriteError
from crypto.event import Event
from crypto.evidence import MAX_OBJECT_BYTES
from crypto.floors import Floors
from crypto.signer import Signer
from crypto.sm2 import PublicKey

CHECKPOINT_ROOM: Final = 1024 + OVERHEAD_BYTES
"""What is reserved for a checkpoint with each entry."""

_MAX_NOTES: Final = 2


class Log:
    """A log that this process writes. Any thread may call.

    Attributes:
        files: the log as it is on the disk.
        anchored: the anchor that the log was started with, whose floors are the least; None for a
            log of one entry.
    """

    def __init__(
        self,
        folder: Path,
        *,
        signer: Signer,
        issuer: str,
        anchor: AnchorStore,
        archive: Path | None = None,
        keys: Iterable[PublicKey] = (),
        clock: Callable[[], int] = now_ms,
        floors: Callable[[], Floors] = Floors,
        limits: Limits = Limits(),  # noqa: B008  (frozen)
    ) -> None:
        """Start a log: read it, compare it with its anchor, cut an interrupted write.

        Args:
            folder: where `create_log` made it.
            signer: the `attest` key that signs checkpoints and events.
            issuer: 1..64 characters of printable ASCII.
            anchor: where the head is kept a second time.
            archive: where closed segments may be besides.
            keys: earlier `attest` keys, by which the last checkpoint may be signed.
            clock: milliseconds since 1970-01-01 UTC.
            floors: what the anchor remembers besides, as it is now.
            limits: when a segment is closed.

        Raises:
            LogDamageError: it may not be continued; nothing was changed.
            LogUnavailableError: `locked`, `archive`; `full`, `failed`: it could not note that.
            UnavailableError: the anchor or the signing device cannot be asked.
            WriteError: the file system refused.
            OSError: there is no log, or it cannot be read.
        """
        self._lock = FolderLock(folder)
        try:
            self.anchored = anchor.read()
            self.files = LogFiles(folder, archive)
            check_signature(self.files, [signer.public_key, *keys])
            check_anchor(self.files, self.anchored)
            recovered = self.files.head
            reason = f"recovered {recovered.size} {recovered.root.hex()}, cut {self.files.last.cut}"
            try:
                self._writer = SegmentWriter(self.files, limits)
            except OSError as error:
                message = f"{folder} cannot be written: {error.strerror or error}"
                raise WriteError(message) from error
        except BaseException:
            self._lock.release()
            raise
        self._clock = LogClock(clock, recovered.time_ms)
        self._committer = Committer(self.files, self._writer, signer, issuer, self._clock)
        self._committer.note("boot", reason)
        self._keeper = AnchorKeeper(anchor, self.anchored, floors)
        self._waiting: deque[Request] = deque()
        self._changed = threading.Condition()
        self._failure: BaseException | None = None
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="windhover-log", daemon=True)
        self._thread.start()
        if self._clock.is_right:
            try:
                self.idle_checkpoint()
            except BaseException:
                self.close()
                raise

    def __enter__(self) -> Self:
        """Return the log."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    @property
    def log_id(self) -> bytes:
        """The 32 bytes of its id."""
        return self.files.log_id

    @property
    def head(self) -> Head:
        """The last checkpoint, which is durable."""
        return self.files.head

    @property
    def state(self) -> str:
        """`ready`, `clock`, `failed` or `closed`."""
        if self._failure is not None:
            return "failed"
        if self._is_closed:
            return "closed"
        return "ready" if self._clock.is_right else "clock"

    @property
    def has_room(self) -> bool:
        """Whether there is room for an admission, for its closing statement, and for the anchor."""
        try:
            with self._reserve(2 * (MAX_RECORD_BYTES + CHECKPOINT_ROOM)):
                return self._keeper.lacking is None
        except LogUnavailableError:
            return False

    @property
    def failure(self) -> BaseException | None:
        """What stopped the log, in the state `failed`."""
        return self._failure

    @property
    def sync_ns(self) -> int:
        """Nanoseconds that all batches so far have waited for the disk."""
        return self._writer.sync_ns

    def append(
        self,
        make: Make,
        *,
        admits: bool = False,
        closes: int | None = None,
        reserve_bytes: int = 0,
        reservation: Reservation | None = None,
        include: Sequence[int] = (),
    ) -> Committed:
        """Have an entry made at its place, and return when it lies under a durable checkpoint.

        Args:
            make: makes the object, at most 65,536 bytes, on the committer's thread.
            admits: whether it is an admission, which one later entry closes.
            closes: index of the admission that it closes.
            reserve_bytes: length of a later object for which room is kept; its reservation is in
                what is returned.
            reservation: room that was kept for this entry; it is used up if the entry is appended.
            include: indexes of other entries whose inclusion in the same tree is wanted.

        Raises:
            LogUnavailableError: `full`, `clock`, `closed`: no index was taken; `failed`: the log
                has stopped, and the cause is what stopped it.
            ValueError: `closes` is no open admission, `include` is not in the log, or both kinds
                at once.
        """
        if admits and closes is not None:
            raise ValueError("an entry either admits or closes")
        self._require_ready()
        with ExitStack() as undo:
            room = reservation
            if room is None:
                self._require_anchored()
                room = self._reserve(MAX_RECORD_BYTES + CHECKPOINT_ROOM)
                undo.callback(room.release)
            kept = None
            if reserve_bytes:
                kept = self.reserve(reserve_bytes)
                undo.callback(kept.release)
            kind = ADMISSION if admits else ENTRY if closes is None else CLOSING
            request = Request(make, kind, closes or 0, tuple(include), room, kept)
            committed = cast("Committed", self._submit(request))
            undo.pop_all()
            room.release()
        return committed

    def reserve(self, num_bytes: int) -> Reservation:
        """Keep room for an object of so many bytes, its record and a checkpoint.

        Raises:
            LogUnavailableError: `full`.
            ValueError: no object has such a length.
        """
        if not 1 <= num_bytes <= MAX_OBJECT_BYTES:
            raise ValueError(f"an object has 1..{MAX_OBJECT_BYTES} bytes, not {num_bytes}")
        return self._reserve(num_bytes + OVERHEAD_BYTES + CHECKPOINT_ROOM)

    def idle_checkpoint(self) -> Head:
        """Write a checkpoint though nothing was appended, and the anchor; return it.

        Raises:
            LogUnavailableError: as `append`.
        """
        self._require_ready()
        with self._reserve(CHECKPOINT_ROOM) as room:
            return cast("Head", self._submit(Request(None, room=room)))

    def introduce_key(self, key: PublicKey, reason: str = "") -> Committed:
        """Append an event that names the `attest` key which signs from the next start on.

        Raises:
            LogUnavailableError: as `append`.
            ValueError: a reason that an event cannot have.
        """
        spki = key.spki_der()
        # Tried before an index is taken: what is wrong with it must not stop the log.
        Event(
            issuer="-",
            log_id=self.log_id,
            sequence=1,
            time_ms=0,
            event="key",
            reason=reason,
            next_key=spki,
        ).encode()
        return self.append(self._committer.event("key", reason, next_key=spki))

    def open_admissions(self) -> list[tuple[int, Entry]]:
        """Return the admissions without a closing statement, ascending: index and entry.

        Raises:
            LogUnavailableError, LogDamageError, OSError: as `LogFiles.entry`.
        """
        found = list(self.files.last.growth.open_admissions)
        return [(index, self.files.entry(index)) for index in found]

    def close(self) -> None:
        """Finish what waits, write the anchor, stop, and let others have the log."""
        with self._changed:
            if self._is_closed:
                return
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join()
        try:
            self._writer.close()
        finally:
            self._lock.release()

    def _reserve(self, num_bytes: int) -> Reservation:
        try:
            return self._writer.space.reserve(num_bytes)
        except (LogUnavailableError, OSError) as error:
            message = f"{self.files.folder}: no room can be reserved: {error}"
            raise LogUnavailableError("full", message) from error

    def _require_ready(self) -> None:
        state = self.state
        if state == "failed":
            raise self._failed()
        if state != "ready":
            message = "the clock is behind the log" if state == "clock" else "the log is closed"
            raise LogUnavailableError(state, message)

    def _require_anchored(self) -> None:
        """Refuse what no room was kept for, while the anchor cannot follow."""
        lacking = self._keeper.lacking
        if lacking is not None:
            raise LogUnavailableError("full", f"there is no room for the anchor: {lacking}")

    def _failed(self) -> LogUnavailableError:
        cause = self._failure
        error = LogUnavailableError("failed", f"the log has stopped: {cause}")
        error.__cause__ = cause
        return error

    def _submit(self, request: Request) -> Committed | Head:
        with self._changed:
            self._require_ready()
            self._waiting.append(request)
            self._changed.notify_all()
        return request.done.result()

    def _run(self) -> None:
        """Commit what waits, until the log is closed: the committer's thread."""
        requests: list[Request] = []
        try:
            while True:
                requests = self._next()
                if requests:
                    self._committer.commit(requests)
                elif self._is_closed:
                    break
                idle = [request for request in requests if not request.done.done()]
                if idle or self._keeper.is_due(self.head):
                    self._keeper.write(self.head)
                self._answer(idle)
                self._writer.roll()
            self._keeper.write(self.head)
        except BaseException as error:
            self._stop(error, requests)

    def _answer(self, idle: Sequence[Request]) -> None:
        """Say to those who wanted nothing but checkpoint and anchor whether both are written."""
        for request in idle:
            try:
                self._require_anchored()
            except LogUnavailableError as error:
                request.done.set_exception(error)
            else:
                request.done.set_result(self.head)

    def _next(self) -> list[Request]:
        """Wait for requests, and return at most one batch; none when it is time for the anchor."""
        with self._changed:
            if not self._waiting and not self._is_closed:
                self._changed.wait(self._keeper.wait_s(self.head))
            count = min(len(self._waiting), MAX_BATCH_ENTRIES - _MAX_NOTES)
            return [self._waiting.popleft() for _ in range(count)]

    def _stop(self, error: BaseException, requests: list[Request]) -> None:
        """Go into the state `failed`, and say so to all who wait."""
        with self._changed:
            self._failure = error
            left = [*requests, *self._waiting]
            self._waiting.clear()
        for request in left:
            if not request.done.done():
                request.done.set_exception(self._failed())
