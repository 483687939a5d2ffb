"""Whether a log may be continued: its last signature, and its anchor.

Source: appliance/log/README.md, section "Start".
"""

from __future__ import annotations

from collections.abc import Iterable

from appliance.log.anchor import Anchor
from appliance.log.errors import LogDamageError
from appliance.log.files import LogFiles
from appliance.log.objects import verify_object
from crypto.errors import InvalidSignatureError
from crypto.sm2 import PublicKey


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
            message = "there is no anchor for this log"
            raise LogDamageError("anchor-missing", message, file=files.folder)
        return
    if anchor.log_id != files.log_id:
        raise LogDamageError("other-log", "the anchor is that of another log", file=files.folder)
    if head.size < anchor.size:
        lost = f"the anchor has seen {anchor.size} entries, here are {head.size}"
        if files.last.cut:
            message = f"ends in the middle of a batch; {lost}"
            raise LogDamageError("truncated", message, file=path, index=head.size)
        raise LogDamageError("older-than-anchor", lost, file=path, index=head.size)
    if files.root(anchor.size) != anchor.root:
        message = f"the tree of {anchor.size} entries has not the anchor's root"
        raise LogDamageError("forked", message, file=files.folder)
