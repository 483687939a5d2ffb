"""The beginning of a log, also of one that replaces another.

Source: appliance/log/README.md, section "New log".
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

from appliance.log.anchor import Anchor, AnchorStore
from appliance.log.clock import now_ms
from appliance.log.errors import LogDamageError, LogUnavailableError
from appliance.log.files import LogFiles
from appliance.log.growth import Growth
from appliance.log.layout import CHECKPOINT, ENTRY, HEADER_BYTES, SegmentHeader, encode_record
from appliance.log.lock import FolderLock
from appliance.log.objects import Head, sign_event, sign_head
from appliance.log.survey import segment_path
from appliance.log.writer import sync_folder, write_segment
from crypto.checkpoint import NO_CHECKPOINT
from crypto.errors import WriteError
from crypto.event import Event, ReplacedLog
from crypto.floors import Floors
from crypto.signer import Signer
from crypto.sm3 import DIGEST_BYTES


def create_log(
    folder: Path,
    *,
    signer: Signer,
    issuer: str,
    anchor: AnchorStore,
    replaces: ReplacedLog | None = None,
    reason: str = "",
    clock: Callable[[], int] = now_ms,
) -> Head:
    """Make a log with a genesis entry, and its anchor.

    Args:
        folder: where it will lie; made if it is not there.
        signer: the `attest` key.
        issuer: 1..64 characters of printable ASCII.
        anchor: where its head is kept; must have none, or that of the replaced log.
        replaces: the log whose place it takes, as `last_head` returns it.
        reason: why, 0..200 characters of printable ASCII.
        clock: milliseconds since 1970-01-01 UTC.

    Raises:
        LogDamageError: `other-log`: the anchor is that of a log that is not the replaced one;
            `anchor-damaged`.
        LogUnavailableError: `locked`.
        WriteError: there is a log already, or the file system refused.
        ValueError: an issuer or a reason that an event cannot have.
        CryptoError: as the signer raises it.
    """
    old = anchor.read()
    if old is not None and (replaces is None or old.log_id != replaces.log_id):
        message = "the anchor is that of a log which this one does not replace"
        raise LogDamageError("other-log", message)
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        sync_folder(folder.parent)
    except OSError as error:
        raise WriteError(f"{folder} cannot be made: {error.strerror or error}") from error
    lock = FolderLock(folder)
    try:
        head, content = _first_segment(signer, issuer, replaces, reason, clock())
        if any(folder.glob("*.log")) or any(folder.glob("*.idx")):
            raise WriteError(f"{folder} has a log already")
        write_segment(segment_path(folder, 0), content)
        floors = Floors() if old is None else old.floors
        anchor.write(Anchor(head.log_id, head.size, head.root, head.time_ms, floors))
    finally:
        lock.release()
    return head


def last_head(folder: Path, archive: Path | None, anchor: AnchorStore) -> ReplacedLog:
    """Return the last head that is known of a log: of its files, or of its anchor if that is later.

    The files may be damaged or gone; then the anchor counts alone.

    Raises:
        LogDamageError: neither says anything; the reason is that of the files.
        LogUnavailableError: as `LogFiles`.
        OSError: there is no log, and no anchor.
    """
    known = anchor.read()
    try:
        head = LogFiles(folder, archive).head
    except (LogDamageError, LogUnavailableError, OSError):
        if known is None:
            raise
        return ReplacedLog(log_id=known.log_id, size=known.size, root=known.root)
    if known is not None and (known.log_id != head.log_id or known.size > head.size):
        return ReplacedLog(log_id=known.log_id, size=known.size, root=known.root)
    return ReplacedLog(log_id=head.log_id, size=head.size, root=head.root)


def _first_segment(
    signer: Signer, issuer: str, replaces: ReplacedLog | None, reason: str, time_ms: int
) -> tuple[Head, bytes]:
    """Return the head of a new log and the content of its first file."""
    log_id = secrets.token_bytes(DIGEST_BYTES)
    genesis = sign_event(
        signer,
        Event(
            issuer=issuer,
            log_id=log_id,
            sequence=0,
            time_ms=time_ms,
            event="genesis",
            reason=reason,
            replaces=replaces,
        ),
    )
    growth = Growth(0, [], [])
    growth.append(ENTRY, 0, genesis, HEADER_BYTES)
    head = sign_head(
        signer,
        issuer,
        log_id=log_id,
        size=1,
        root=growth.root(),
        time_ms=time_ms,
        previous=NO_CHECKPOINT,
    )
    header = SegmentHeader(log_id, 0, 0, bytes(DIGEST_BYTES)).encode()
    entry = encode_record(header[-DIGEST_BYTES:], ENTRY, 0, genesis)
    last = encode_record(entry[-DIGEST_BYTES:], CHECKPOINT, 1, head.checkpoint)
    return head, header + entry + last
