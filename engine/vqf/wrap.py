"""Whom a file is sealed for, and the data key wrapped for them (FORMAT.md section 8)."""

from __future__ import annotations

import secrets
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from crypto.errors import KeyFileError
from crypto.kdf import hkdf_sm3, hmac_sm3, pbkdf2_hmac_sm3
from crypto.labels import VQF_WRAP, VQF_WRAP_CIPHER, VQF_WRAP_KEY
from crypto.sm2 import encrypt
from crypto.sm4 import ctr
from engine.errors import ConfigError
from engine.vqf.recipients import (
    LEAST_ITERATIONS,
    MAX_RECIPIENTS,
    MOST_ITERATIONS,
    SALT_BYTES,
    KeyRecipient,
    PassphraseRecipient,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _typeshed import ReadableBuffer

    from crypto.sm2 import PublicKey
    from engine.vqf.recipients import Recipients

MAX_PASSPHRASE_BYTES: Final = 1024

_ITERATIONS: Final = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class SealFor:
    """The recipients that a file is to have: public keys, or a passphrase."""

    keys: tuple[PublicKey, ...] = ()
    passphrase: ReadableBuffer | None = field(default=None, repr=False)
    iterations: int = LEAST_ITERATIONS

    def wrap(self, data_key: bytes, file_id: bytes) -> Recipients:
        """Encrypt the data key for each of them.

        Raises:
            ConfigError: there are keys and a passphrase, neither, or too many keys, or the number
                of iterations is outside its limits.
            KeyFileError: the passphrase has not 1 to 1024 bytes, or a zero; reason `passphrase`.
        """
        if (self.passphrase is None) != bool(self.keys):
            raise ConfigError("a file is sealed for public keys or for one passphrase")
        if not LEAST_ITERATIONS <= self.iterations <= MOST_ITERATIONS:
            limits = f"{LEAST_ITERATIONS:,} to {MOST_ITERATIONS:,}"
            raise ConfigError(f"a passphrase takes {limits} iterations, not {self.iterations:,}")
        if self.passphrase is not None:
            return _by_passphrase(data_key, file_id, self.passphrase, self.iterations)
        return wrap_for_keys(data_key, self.keys)


def wrap_for_keys(data_key: bytes, public_keys: Iterable[PublicKey]) -> tuple[KeyRecipient, ...]:
    """Encrypt the data key for every holder of one of the keys; a key given twice counts once.

    Raises:
        ConfigError: there are more than 64.
    """
    by_id = {key.key_id: key for key in public_keys}
    if len(by_id) > MAX_RECIPIENTS:
        raise ConfigError(f"a file has at most {MAX_RECIPIENTS} recipients, not {len(by_id)}")
    return tuple(KeyRecipient(key_id, encrypt(by_id[key_id], data_key)) for key_id in sorted(by_id))


def check_passphrase(passphrase: ReadableBuffer) -> None:
    """Refuse what is no passphrase of a file.

    Raises:
        KeyFileError: it has not 1 to 1024 bytes, or a zero; reason `passphrase`.
    """
    length = memoryview(passphrase).nbytes
    if not 1 <= length <= MAX_PASSPHRASE_BYTES:
        message = f"a passphrase has 1 to {MAX_PASSPHRASE_BYTES} bytes, not {length}"
        raise KeyFileError("passphrase", message)
    if 0 in memoryview(passphrase).cast("B"):
        # HMAC fills a short key with zeros: one more at its end would be the same passphrase.
        raise KeyFileError("passphrase", "a passphrase has no zero byte")


def passphrase_keys(
    passphrase: ReadableBuffer, salt: bytes, iterations: int
) -> tuple[bytes, bytes]:
    """Return the keys of the wrapping cipher (16 bytes) and of its tag (32)."""
    secret = pbkdf2_hmac_sm3(passphrase, salt, iterations, 32)
    return hkdf_sm3(secret, salt, VQF_WRAP_CIPHER, 16), hkdf_sm3(secret, salt, VQF_WRAP_KEY, 32)


def wrap_tag(key: bytes, file_id: bytes, salt: bytes, iterations: int, wrapped: bytes) -> bytes:
    """Return the tag that binds a wrapped key to its file."""
    return hmac_sm3(key, VQF_WRAP, file_id, salt, _ITERATIONS.pack(iterations), wrapped)


def _by_passphrase(
    data_key: bytes, file_id: bytes, passphrase: ReadableBuffer, iterations: int
) -> PassphraseRecipient:
    """Encrypt the data key under a passphrase."""
    check_passphrase(passphrase)
    salt = secrets.token_bytes(SALT_BYTES)
    cipher_key, tag_key = passphrase_keys(passphrase, salt, iterations)
    wrapped = ctr(cipher_key, 0, data_key)
    tag = wrap_tag(tag_key, file_id, salt, iterations, wrapped)
    return PassphraseRecipient(salt, iterations, wrapped, tag)
