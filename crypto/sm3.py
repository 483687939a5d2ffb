"""SM3, the only hash function of this project.

The standard library's OpenSSL is used where it has SM3, because a call costs about 0.4 us less
than one through `cryptography`; builds of OpenSSL without SM3 exist, and there the library that
`cryptography` carries does the work. Both hash long inputs at the same speed; a test compares them.

Source: GB/T 32905-2016 (also ISO/IEC 10118-3:2018, hash function 17).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

DIGEST_BYTES: Final = 32


class _State(Protocol):
    """What the two providers have in common."""

    def update(self, data: ReadableBuffer, /) -> None: ...

    def digest(self) -> bytes: ...

    def copy(self) -> _State: ...


def _hashlib_start() -> _State:
    """Return an empty SM3 state of the standard library; ValueError where its OpenSSL has none."""
    return hashlib.new("sm3")


def _cryptography_start() -> _State:
    """Return an empty SM3 state of the `cryptography` package."""
    # Imported here: the standard library's provider saves the time to load this package.
    from crypto.sm3_cryptography import CryptographyState  # noqa: PLC0415

    return CryptographyState()


def _choose() -> tuple[str, Callable[[], _State]]:
    """Return the name and the start function of the provider that this process uses."""
    try:
        _hashlib_start()
    except ValueError:
        return "cryptography", _cryptography_start
    return "hashlib", _hashlib_start


PROVIDER, _start = _choose()


class Sm3:
    """An SM3 computation that takes its input piece by piece."""

    __slots__ = ("_state",)

    _state: _State

    def __init__(self, data: ReadableBuffer = b"") -> None:
        """Start a computation over `data`."""
        self._state = _start()
        self._state.update(data)

    def update(self, data: ReadableBuffer) -> None:
        """Append `data` (any contiguous buffer) to the input."""
        self._state.update(data)

    def digest(self) -> bytes:
        """Return the 32-byte digest of the input so far; more input may follow."""
        return self._state.digest()

    def copy(self) -> Sm3:
        """Return an independent computation with the same input so far."""
        other = Sm3.__new__(Sm3)
        other._state = self._state.copy()
        return other


def prefixed(prefix: bytes) -> Callable[[ReadableBuffer], bytes]:
    """Return a function that computes SM3(prefix || data).

    The state after the prefix is computed once and copied for each call: the cheapest way to hash
    many short inputs that begin alike, and no input is copied to join it to its prefix.
    """
    start = _start()
    start.update(prefix)
    copy = start.copy

    def digest(data: ReadableBuffer) -> bytes:
        state = copy()
        state.update(data)
        return state.digest()

    return digest


_plain = prefixed(b"")


def sm3(data: ReadableBuffer) -> bytes:
    """Return the 32-byte SM3 digest of `data` (any contiguous buffer)."""
    return _plain(data)
