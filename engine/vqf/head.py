"""Everything of a sealed file that stands before its data area (FORMAT.md sections 3 and 8)."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from engine.vqf.format import COUNTER_BYTES, TAG_BYTES
from engine.vqf.preamble import sealed_preamble
from engine.vqf.recipients import encode_recipients

if TYPE_CHECKING:
    from engine.vqf.preamble import Preamble
    from engine.vqf.recipients import Recipients
    from engine.vqf.suite import SealKeys


def sealed_head(
    keys: SealKeys,
    recipients: Recipients,
    manifest: bytes,
    signatures: bytes,
    tags: bytes,
    data_length: int,
) -> tuple[Preamble, bytes]:
    """Return the preamble, and all bytes up to the data area; the counter start is a new one.

    Raises:
        ValueError: the recipients are none that a file can have.
    """
    counter_start = secrets.token_bytes(COUNTER_BYTES)
    preamble = sealed_preamble(
        len(manifest),
        len(signatures),
        len(tags) // TAG_BYTES,
        data_length,
        counter_start,
        keys.file_id,
    )
    tagged = tagged_head(keys, preamble, recipients)
    sealed = keys.crypt_manifest(counter_start, manifest + signatures)
    tag = keys.manifest_tag(counter_start, len(manifest), len(signatures), sealed)
    return preamble, (tagged + sealed + tag + tags).ljust(preamble.data_offset, b"\0")


def tagged_head(keys: SealKeys, preamble: Preamble, recipients: Recipients) -> bytes:
    """Return preamble, recipients and header tag: what a change of recipients writes.

    Raises:
        ValueError: the recipients are none that a file can have.
    """
    head = preamble.encode() + encode_recipients(recipients)
    return head + keys.header_tag(head)
