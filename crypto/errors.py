"""Errors of the crypto package: one base class, one line of meaning each."""

from __future__ import annotations


class CryptoError(Exception):
    """Base class of every error that this package raises on purpose."""


class FormatError(CryptoError):
    """Encoded data breaks a rule of crypto/README.md, so nothing in it was used."""

    def __init__(self, offset: int, rule: str) -> None:
        """Keep the byte offset of the offending item and the name of the rule."""
        super().__init__(f"malformed at offset {offset}: {rule}")
        self.offset = offset
        self.rule = rule


class InvalidProofError(CryptoError):
    """A Merkle proof was checked and did not verify; carries no detail."""


class InvalidSignatureError(CryptoError):
    """A signature was checked and did not verify; carries no detail."""


class InvalidTagError(CryptoError):
    """Bytes do not have their tag: altered, or the wrong key or passphrase; carries no detail."""


class KeyFileError(CryptoError):
    """A key or a secret cannot be used; the codes are in crypto/README.md."""

    def __init__(self, reason: str, message: str) -> None:
        """Keep the code, which scripts compare, and say the line, which people read."""
        super().__init__(message)
        self.reason = reason


class PolicyError(CryptoError):
    """The trust policy refuses; the codes are in crypto/README.md."""

    def __init__(self, reason: str, message: str) -> None:
        """Keep the code, which scripts compare, and say the line, which people read."""
        super().__init__(message)
        self.reason = reason


class UnavailableError(CryptoError):
    """This machine cannot do what was asked, so nothing was checked."""


class SelfTestError(CryptoError):
    """A primitive gave another result than its standard says; nothing may be computed with it."""


class WriteError(CryptoError):
    """A file could not be written; what was there before is whole. The cause is an OSError."""
