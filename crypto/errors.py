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
