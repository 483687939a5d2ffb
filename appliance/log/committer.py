"""One batch: entries made at their places, a checkpoint over them, one write, proofs for all.

It runs on one thread. What it raises has happened after an index was taken, and stops the log.
"""

from __future__ import annotations

from collections.abc import Sequence

from appliance.log.batch import Committed, Make, Position, Request
from appliance.log.clock import LogClock
from appliance.log.errors import LogUnavailableError
from appliance.log.files import LogFiles
from appliance.log.layout import CLOSING, OVERHEAD_BYTES
from appliance.log.objects import Head, sign_event, sign_head
from appliance.log.writer import NewEntry, SegmentWriter
from crypto.event import Event
from crypto.evidence import MAX_OBJECT_BYTES
from crypto.signer import Signer


class Committer:
    """Makes, signs and writes batches."""

    def __init__(
        self,
        files: LogFiles,
        writer: SegmentWriter,
        signer: Signer,
        issuer: str,
        clock: LogClock,
    ) -> None:
        """Continue these files."""
        self._files = files
        self._writer = writer
        self._signer = signer
        self._issuer = issuer
        self._clock = clock
        self._notes: list[tuple[str, str]] = []

    def note(self, event: str, reason: str) -> None:
        """Put an event before the entries of the next batch."""
        self._notes.append((event, reason))

    def event(self, event: str, reason: str, *, next_key: bytes | None = None) -> Make:
        """Return what makes an event."""

        def make(position: Position) -> bytes:
            return sign_event(
                self._signer,
                Event(
                    issuer=self._issuer,
                    log_id=position.log_id,
                    sequence=position.index,
                    time_ms=position.time_ms,
                    event=event,
                    reason=reason,
                    next_key=next_key,
                ),
            )

        return make

    def commit(self, requests: Sequence[Request]) -> None:
        """Commit a batch, and answer those of its requests that are entries.

        Raises:
            BaseException: whatever stopped it; what is on the disk is not known.
        """
        try:
            time_ms, jump_ms = self._clock.next()
        except LogUnavailableError as error:
            _refuse(requests, error)
            return
        accepted = self._accepted(requests)
        if not accepted:
            return
        if jump_ms:
            self.note("clock", f"ahead {jump_ms // 1000} s")
        before = self._files.head
        work = [Request(self.event(event, reason)) for event, reason in self._notes]
        work += [request for request in accepted if request.make is not None]
        made = self._make(work, before, time_ms)
        self._write([entry for _, entry in made], accepted, before, time_ms)
        self._notes.clear()
        self._answer(work, made, before)

    def _accepted(self, requests: Sequence[Request]) -> list[Request]:
        """Return the requests that can be met, and refuse the others before an index is taken."""
        still_open = set(self._files.last.growth.open_admissions)
        size = self._files.head.size
        accepted = []
        for request in requests:
            if request.kind == CLOSING and request.refers not in still_open:
                _refuse([request], ValueError(f"admission {request.refers} is not open"))
            elif not all(0 <= index < size for index in request.include):
                _refuse([request], ValueError("an entry to include is not in the log"))
            else:
                still_open.discard(request.refers if request.kind == CLOSING else -1)
                accepted.append(request)
        return accepted

    def _make(
        self, work: Sequence[Request], before: Head, time_ms: int
    ) -> list[tuple[Position, NewEntry]]:
        """Let every entry be made at its place."""
        made = []
        for index, request in enumerate(work, before.size):
            position = Position(before.log_id, index, before.size, before.root, time_ms)
            body = b"" if request.make is None else request.make(position)
            if type(body) is not bytes or not 1 <= len(body) <= MAX_OBJECT_BYTES:
                raise ValueError(f"entry {index} is no object of 1..{MAX_OBJECT_BYTES} bytes")
            made.append((position, NewEntry(request.kind, request.refers, body)))
        return made

    def _write(
        self, entries: list[NewEntry], accepted: Sequence[Request], before: Head, time_ms: int
    ) -> None:
        """Sign the checkpoint and write the batch."""
        self._writer.take(entries)
        growth = self._files.last.growth
        head = sign_head(
            self._signer,
            self._issuer,
            log_id=before.log_id,
            size=growth.size,
            root=growth.root(),
            time_ms=time_ms,
            previous=before.digest,
        )
        bodies = [*(entry.body for entry in entries), head.checkpoint]
        needed = sum(OVERHEAD_BYTES + len(body) for body in bodies)
        room = sum(request.room.num_bytes for request in accepted if request.room is not None)
        with self._writer.space.reserve(max(0, needed - room)):
            self._writer.write(entries, head)
        self._clock.wrote(time_ms)

    def _answer(
        self, work: Sequence[Request], made: list[tuple[Position, NewEntry]], before: Head
    ) -> None:
        """Give every entry its proofs."""
        files, head = self._files, self._files.head
        consistency = files.consistency(before.size, head.size)
        for request, (position, entry) in zip(work, made, strict=True):
            request.done.set_result(
                Committed(
                    position,
                    entry.body,
                    head,
                    files.inclusion(position.index, head.size),
                    {index: files.inclusion(index, head.size) for index in request.include},
                    consistency,
                    request.kept,
                )
            )


def _refuse(requests: Sequence[Request], error: Exception) -> None:
    for request in requests:
        request.done.set_exception(error)
