"""Whether a log may be continued: its last signature, and its anchor.

Source: appliance/log/README.md, section "Start".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from appliance.log.anchor import Anchor
from appliance.log.errors import LogDamageError
from appliance.log.files import LogFiles
from appliance.log.objects import verify_object
from crypto.errors import InvalidSignatureError
from crypto.sm2 import PublicKey

_OTHER: Final = "the anchor is that of another log: name the one that belongs to this log"
_OR_NEW: Final = "or begin a new log with `windhover log new`, whose id says so to everybody"


def check_signature(files: LogFiles, keys: Iterable[PublicKey]) -> None:
    """Verify the signature of the last checkpoint.

    Raises:
        LogDamageError: `corrupted`, or `unknown-key`: none of these keys is named in it.
    """
    head, path = files.head, files.last.path
    try:
        is_known = verify_object(head.checkpoint, {key.key_id: key for key in keys})
    except InvalidSignatureError:
        message = "the last checkpoint's signature does not verify"
        raise LogDamageError("corrupted", message, file=path, index=head.size - 1) from None
    if not is_known:
        message = "the last checkpoint is signed by a key that was not named"
        raise LogDamageError("unknown-key", message, file=path, index=head.size - 1)


def check_anchor(files: LogFiles, anchor: Anchor | None) -> None:
    """Compare a log with what is remembered of it elsewhere.

    Raises:
        LogDamageError: `other-log`, `anchor-missing`, `truncated`, `older-than-anchor`, `forked`.
        LogUnavailableError: `archive`: it takes an index that is away.
        OSError: a file cannot be read.
    """
    head, path = files.head, files.last.path
    if anchor is None:
        if head.size > 1:  # the genesis alone: the machine stopped before its anchor was written
            message = f"there is no anchor for this log: put it back, {_OR_NEW}"
            raise LogDamageError("anchor-missing", message, file=files.folder)
        return
    if anchor.log_id != files.log_id:
        raise LogDamageError("other-log", _OTHER, file=files.folder)
    if head.size < anchor.size:
        lost = (
            f"the anchor has seen {anchor.size} entries, here are {head.size}: this is an older "
            f"copy, or the disk has lost something; restore the newer one, {_OR_NEW}"
        )
        if files.last.cut:
            message = f"ends in the middle of a batch; {lost}"
            raise LogDamageError("truncated", message, file=path, index=head.size)
        raise LogDamageError("older-than-anchor", lost, file=path, index=head.size)
    if files.root(anchor.size) != anchor.root:
        message = f"the tree of {anchor.size} entries has not the anchor's root: log and anchor "
        message += f"are of two histories; find out which is right and restore both, {_OR_NEW}"
        raise LogDamageError("forked", message, file=files.folder)
