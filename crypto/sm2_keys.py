"""The two halves of an SM2 key as values.

Source: GB/T 32918.1-2016, 6.1 (private keys are 1 .. n - 2) and 6.2 (public keys are checked).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self

from crypto.errors import KeyFileError
from crypto.sm2_curve import FIELD_BYTES, MAX_SECRET, Point, decode_point, is_on_curve
from crypto.sm3 import sm3
from crypto.spki import decode_spki, encode_spki

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


@dataclass(frozen=True)
class PublicKey:
    """A point of the curve, checked when it is made.

    Attributes:
        x: its first coordinate, 0 .. p - 1.
        y: its second one.
    """

    x: int
    y: int

    def __post_init__(self) -> None:
        """Check that the point is on the curve.

        Raises:
            KeyFileError: `format`: it is not.
        """
        if not is_on_curve(self.x, self.y):
            raise KeyFileError("format", "the public key is no point of the SM2 curve")

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the key that 65 bytes 04 || x || y encode.

        Raises:
            KeyFileError: `format`: they encode no point of the curve.
        """
        point = decode_point(data)
        if point is None:
            raise KeyFileError(
                "format", "the public key is no point of the SM2 curve (04 || x || y)"
            )
        return cls(*point)

    @classmethod
    def from_spki_der(cls, data: bytes) -> Self:
        """Return the key in a SubjectPublicKeyInfo of either form of crypto/README.md.

        Raises:
            FormatError: the encoding breaks a DER rule.
            KeyFileError: `format`: the key is not one of SM2, or its point is not on the curve.
        """
        return cls(*decode_spki(data))

    @property
    def point(self) -> Point:
        """The point alone."""
        return Point(self.x, self.y)

    @cached_property
    def key_id(self) -> bytes:
        """The 32 bytes by which the key is called: SM3 of `spki_der()`."""
        return sm3(self.spki_der())

    def to_bytes(self) -> bytes:
        """Return 04 || x || y, 65 bytes."""
        return self.point.encode()

    def spki_der(self) -> bytes:
        """Return the SubjectPublicKeyInfo with id-ecPublicKey and the curve, 91 bytes."""
        return encode_spki(self.point)


class PrivateKey:
    """A secret number and its public key; made by `crypto.sm2`.

    The number is kept in one buffer that `wipe` fills with zeros. Copies that Python or a library
    makes while computing are out of reach; crypto/README.md says which.
    """

    __slots__ = ("_secret", "public_key")

    def __init__(self, secret: ReadableBuffer, public_key: PublicKey) -> None:
        """Copy a secret (see `check_secret`) and take the public key that belongs to it."""
        self._secret = bytearray()  # what `__del__` finds when the copy fails
        self._secret = bytearray(secret)
        self.public_key = public_key

    @property
    def key_id(self) -> bytes:
        """The key id of the public key."""
        return self.public_key.key_id

    @contextmanager
    def secret(self) -> Iterator[memoryview]:
        """Lend the 32 bytes of the secret, big-endian, for one computation.

        Raises:
            ValueError: the key was wiped.
        """
        if not any(self._secret):
            raise ValueError("the private key was wiped")
        with memoryview(self._secret).toreadonly() as view:
            yield view

    def wipe(self) -> None:
        """Fill the secret with zeros; the key is of no use from then on."""
        self._secret[:] = bytes(len(self._secret))

    def __enter__(self) -> Self:
        """Return the key, which is wiped at the end of the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Wipe."""
        self.wipe()

    def __del__(self) -> None:
        """Wipe what was forgotten."""
        self.wipe()

    def __repr__(self) -> str:
        """Name the key without its secret."""
        return f"PrivateKey(key_id={self.key_id.hex()})"

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or serialised."""
        raise TypeError("a private key is not copied")


def check_secret(secret: ReadableBuffer) -> None:
    """Check that these are 32 bytes of a number in 1 .. n - 2, big-endian.

    Raises:
        KeyFileError: `range`: they are not.
    """
    if len(memoryview(secret)) != FIELD_BYTES or not (
        1 <= int.from_bytes(secret, "big") <= MAX_SECRET
    ):
        raise KeyFileError("range", "a private SM2 key is a number in 1 .. n - 2, 32 bytes long")
