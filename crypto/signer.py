"""What signs and what unwraps: a key in memory, or a device in its place.

crypto/README.md says what the adapter of a device has to do.
"""

from __future__ import annotations

from typing import Protocol

from crypto.errors import InvalidSignatureError, SelfTestError
from crypto.sm2 import PrivateKey, PublicKey, decrypt, sign, verify


class Signer(Protocol):
    """Signs messages with SM2, SM3 and the default identity."""

    @property
    def public_key(self) -> PublicKey:
        """The key that verifies."""
        ...

    @property
    def key_id(self) -> bytes:
        """The 32 bytes of its key id."""
        ...

    def sign(self, message: bytes) -> bytes:
        """Return r || s, 64 bytes.

        Raises:
            UnavailableError: the device could not be asked.
        """
        ...


class Unwrapper(Protocol):
    """Decrypts short secrets that were encrypted with SM2."""

    @property
    def key_id(self) -> bytes:
        """The 32 bytes of the key id of the recipient."""
        ...

    def unwrap(self, ciphertext: bytes) -> bytes:
        """Return the plain text of C1 || C3 || C2.

        Raises:
            FormatError: the ciphertext is malformed.
            InvalidTagError: it was altered, or is for another key.
            UnavailableError: the device could not be asked.
        """
        ...


class SoftwareSigner:
    """Signs with a private key in memory; what it returns has been verified."""

    def __init__(self, key: PrivateKey) -> None:
        """Sign with this key, which stays the caller's to wipe."""
        self._key = key

    @property
    def public_key(self) -> PublicKey:
        """The key that verifies."""
        return self._key.public_key

    @property
    def key_id(self) -> bytes:
        """The 32 bytes of its key id."""
        return self._key.key_id

    def sign(self, message: bytes) -> bytes:
        """Return r || s, 64 bytes, verified.

        Raises:
            SelfTestError: what was computed does not verify.
            UnavailableError: libcrypto could not sign.
            ValueError: the key was wiped.
        """
        return sign(self._key, message)


class SoftwareUnwrapper:
    """Decrypts with a private key in memory."""

    def __init__(self, key: PrivateKey) -> None:
        """Decrypt with this key, which stays the caller's to wipe."""
        self._key = key

    @property
    def key_id(self) -> bytes:
        """The 32 bytes of the key id of the recipient."""
        return self._key.key_id

    def unwrap(self, ciphertext: bytes) -> bytes:
        """Return the plain text of C1 || C3 || C2.

        Raises:
            FormatError: the ciphertext is malformed.
            InvalidTagError: it was altered, or is for another key.
            ValueError: the key was wiped.
        """
        return decrypt(self._key, ciphertext)


def checked_sign(signer: Signer, message: bytes) -> bytes:
    """Return a signature of this signer that has been verified, whoever made it.

    Raises:
        SelfTestError: the device returned something that its public key does not verify.
        UnavailableError: the device could not be asked.
    """
    signature = signer.sign(message)
    if type(signer) is SoftwareSigner:  # has verified it already, for 3 ms
        return signature
    try:
        verify(signer.public_key, message, signature)
    except InvalidSignatureError:
        raise SelfTestError("the signing device returned a signature that is wrong") from None
    return signature
