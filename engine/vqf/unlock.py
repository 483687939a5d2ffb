"""Getting the data key of a sealed file back (FORMAT.md section 8)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crypto.errors import InvalidTagError, KeyFileError
from crypto.kdf import check_tag
from crypto.sm4 import ctr
from engine.vqf.recipients import PassphraseRecipient
from engine.vqf.suite import DATA_KEY_BYTES
from engine.vqf.wrap import check_passphrase, passphrase_keys, wrap_tag

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from crypto.signer import Unwrapper
    from engine.vqf.recipients import Recipients


@dataclass(frozen=True, slots=True)
class Unlock:
    """What a caller can open sealed files with: keys, a passphrase, both or nothing."""

    keys: tuple[Unwrapper, ...] = ()
    passphrase: ReadableBuffer | None = field(default=None, repr=False)

    def data_key(self, recipients: Recipients, file_id: bytes) -> bytes:
        """Return the data key of a file.

        Raises:
            KeyFileError: there is no key or passphrase here that the file is sealed for; reason
                `missing` or `recipient`. Or the passphrase is none; reason `passphrase`.
            InvalidTagError: the wrapped key was altered, or the passphrase is wrong.

        Security: the header tag has to be compared before anything else is done with the key.
        """
        if isinstance(recipients, PassphraseRecipient):
            if self.passphrase is None:
                raise KeyFileError("missing", "the file is sealed: it needs its passphrase")
            check_passphrase(self.passphrase)
            return _by_passphrase(recipients, file_id, self.passphrase)
        if not self.keys:
            raise KeyFileError("missing", "the file is sealed: it needs the key of a recipient")
        wrapped = {recipient.key_id: recipient.wrapped for recipient in recipients}
        for key in self.keys:
            if key.key_id in wrapped:
                data_key = key.unwrap(wrapped[key.key_id])
                if len(data_key) != DATA_KEY_BYTES:
                    raise InvalidTagError("the wrapped key does not hold a data key")
                return data_key
        raise KeyFileError("recipient", "the file is not sealed for this key")


def _by_passphrase(
    recipient: PassphraseRecipient, file_id: bytes, passphrase: ReadableBuffer
) -> bytes:
    """Return the data key.

    Raises:
        InvalidTagError: the passphrase is wrong, or the area was altered.
    """
    salt, iterations, wrapped, tag = recipient
    cipher_key, tag_key = passphrase_keys(passphrase, salt, iterations)
    check_tag(wrap_tag(tag_key, file_id, salt, iterations, wrapped), tag)
    return ctr(cipher_key, 0, wrapped)
