"""SM3 from the `cryptography` package, in the shape of a hashlib object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.hashes import SM3, Hash

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class CryptographyState:
    """A running SM3 computation of the OpenSSL that `cryptography` carries."""

    __slots__ = ("_hash",)

    def __init__(self, state: Hash | None = None) -> None:
        """Take over `state`, or start with no input."""
        self._hash = Hash(SM3()) if state is None else state

    def update(self, data: ReadableBuffer, /) -> None:
        """Append `data` to the input."""
        view = memoryview(data)
        if view.nbytes:  # an empty buffer cannot be cast, and adds nothing
            self._hash.update(view.cast("B"))

    def digest(self) -> bytes:
        """Return the digest of the input so far; more input may follow."""
        return self._hash.copy().finalize()

    def copy(self) -> CryptographyState:
        """Return an independent computation with the same input so far."""
        return CryptographyState(self._hash.copy())
