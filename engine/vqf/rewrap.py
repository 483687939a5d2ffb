"""Changing who can open a sealed file, without touching its data (FORMAT.md section 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crypto.atomic import AtomicFile
from engine.errors import ConfigError, UnsupportedError
from engine.vqf.exclusive import exclusively
from engine.vqf.head import tagged_head
from engine.vqf.recipients import MAX_RECIPIENTS, PassphraseRecipient
from engine.vqf.wrap import wrap_for_keys

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from crypto.sm2 import PublicKey
    from engine.vqf.fetch import Seal
    from engine.vqf.file import VqfFile
    from engine.vqf.recipients import Recipients
    from engine.vqf.wrap import SealFor


def rewrap_vqf(
    file: VqfFile,
    *,
    recipients: SealFor | None = None,
    add: Sequence[PublicKey] = (),
    remove: Collection[bytes] = (),
) -> Recipients:
    """Replace an open sealed file by one that others can open; data key and data stay.

    Args:
        file: the file; it stays open on what it was.
        recipients: all recipients of the new file; or else
        add: keys of recipients to add, and
        remove: key ids of recipients to remove.

    Returns:
        The recipients that the file has now.

    Raises:
        UnsupportedError: the file is not sealed.
        ConfigError: the change makes no sense: nobody or too many are left, a key id is no
            recipient's, or a file of a passphrase is to get keys beside it.
        WriteError: the file system refused, or the file was replaced since it was opened; the old
            one is whole.

    Security: a removed recipient may have kept the data key, and the old file. Only `seal_vqf`
        makes a new data key.
    """
    if file.seal is None:
        raise UnsupportedError(
            f"{file.path} is {file.form.name.lower()}, so nobody opens it by key"
        )
    seal = file.seal
    if recipients is None:
        changed = _changed(seal, add, remove)
    elif add or remove:
        raise ConfigError("either all recipients are named, or those to add and to remove")
    else:
        changed = recipients.wrap(seal.data_key, seal.keys.file_id)
    with exclusively(file), AtomicFile(file.path, force=True) as out:
        out.create()
        out.copy_range(file.descriptor, 0, 0, file.preamble.file_length)
        out.write_at(0, tagged_head(seal.keys, file.preamble, changed))
        out.commit()
    return changed


def _changed(seal: Seal, add: Sequence[PublicKey], remove: Collection[bytes]) -> Recipients:
    """Return the file's recipients with some added and some removed."""
    if not add and not remove:
        raise ConfigError("there is no change of recipients to make")
    old = seal.recipients
    if isinstance(old, PassphraseRecipient):
        raise ConfigError("the file has a passphrase; name all recipients to give it keys instead")
    by_id = {recipient.key_id: recipient for recipient in old}
    for key_id in remove:
        if by_id.pop(key_id, None) is None:
            raise ConfigError(f"{key_id.hex()} is no recipient of the file")
    by_id.update((wrapped.key_id, wrapped) for wrapped in wrap_for_keys(seal.data_key, add))
    if not 1 <= len(by_id) <= MAX_RECIPIENTS:
        raise ConfigError(f"a file has 1 to {MAX_RECIPIENTS} recipients, not {len(by_id)}")
    return tuple(by_id[key_id] for key_id in sorted(by_id))
