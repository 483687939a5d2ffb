"""Who computes with private SM2 keys: the system's libcrypto, or else gmssl's curve arithmetic.

Each is tried on the example of the standard before it is used. A library that has no SM2 is passed
over; one that computes something wrong stops the program.

Source: GB/T 32918.5-2017, annexes A and C (the example key and what belongs to it).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, Protocol

from crypto.errors import InvalidSignatureError, InvalidTagError, SelfTestError, UnavailableError
from crypto.sm2_ciphertext import Ciphertext
from crypto.sm2_curve import Point
from crypto.sm2_digest import DEFAULT_ID, message_digest
from crypto.sm2_keys import PublicKey
from crypto.sm2_verify import verify_digest

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class Provider(Protocol):
    """Computes with the 32 bytes of a private key that is in range; checks nothing it is given."""

    name: str

    def public_point(self, secret: ReadableBuffer) -> Point:
        """Return the public key of a secret."""
        ...

    def sign(
        self,
        secret: ReadableBuffer,
        public_key: PublicKey,
        message: bytes,
        identifier: bytes,
        digest: bytes,
    ) -> bytes:
        """Return a signature r || s, which the caller verifies before anybody sees it.

        Args:
            secret: the private key, 32 bytes.
            public_key: what belongs to it.
            message: what is signed.
            identifier: the signer's identity.
            digest: e = SM3(Z_A || message).
        """
        ...

    def decrypt(
        self, secret: ReadableBuffer, public_key: PublicKey, ciphertext: Ciphertext
    ) -> bytes:
        """Return the plain text of a ciphertext whose C1 is on the curve.

        Raises:
            InvalidTagError: C3 is not that of the plain text.
        """
        ...


_SECRET: Final = bytes.fromhex("3945208f7b2144b13f36e38ac6d39f95889393692860b51a42fb81ef4df7c5b8")
_PUBLIC: Final = Point(
    0x09F9DF311E5421A150DD7D161E4BC5C672179FAD1833FC076BB08FF356F35020,
    0xCCEA490CE26775A52DC6EA718CC1AA600AED05FBF35E084A6632F6072DA9AD13,
)
_MESSAGE: Final = b"message digest"
_PLAINTEXT: Final = b"encryption standard"
_CIPHERTEXT: Final = Ciphertext(
    Point(
        0x04EBFC718E8D1798620432268E77FEB6415E2EDE0E073C0F4F640ECD2E149A73,
        0xE858F9D81E5430A57B36DAAB8F950A3C64E6EE6A63094D99283AFF767E124DF0,
    ),
    bytes.fromhex("59983c18f809e262923c53aec295d30383b54e39d609d160afcb1908d0bd8766"),
    bytes.fromhex("21886ca989ca9c7d58087307ca93092d651efa"),
)


def check_provider(provider: Provider) -> None:
    """Compute the examples of the standard with a provider.

    Raises:
        SelfTestError: a result is not the one of the standard.
        UnavailableError: the provider cannot compute with SM2 keys.
    """
    public_key = PublicKey(*_PUBLIC)
    digest = message_digest(_PUBLIC, _MESSAGE, DEFAULT_ID)
    try:
        good = provider.public_point(_SECRET) == _PUBLIC
        signature = provider.sign(_SECRET, public_key, _MESSAGE, DEFAULT_ID, digest)
        verify_digest(public_key, digest, signature)
        good &= provider.decrypt(_SECRET, public_key, _CIPHERTEXT) == _PLAINTEXT
    except (InvalidSignatureError, InvalidTagError):
        good = False
    if not good or not _refuses_altered(provider, public_key):
        raise SelfTestError(f"SM2 through {provider.name} does not give the standard's results")


def _refuses_altered(provider: Provider, public_key: PublicKey) -> bool:
    """Return whether a provider compares C3."""
    altered = _CIPHERTEXT._replace(c3=bytes(reversed(_CIPHERTEXT.c3)))
    try:
        provider.decrypt(_SECRET, public_key, altered)
    except InvalidTagError:
        return True
    return False


@cache
def provider() -> Provider:
    """Return the provider of this process, tried out.

    Raises:
        SelfTestError: it computes something wrong.
    """
    # Imported here: a machine needs one of the two, and gmssl takes long to load.
    try:
        from crypto.sm2_system import SystemProvider  # noqa: PLC0415

        system = SystemProvider()
        check_provider(system)
    except UnavailableError:
        from crypto.sm2_hedged import HedgedProvider  # noqa: PLC0415

        hedged = HedgedProvider()
        check_provider(hedged)
        return hedged
    return system
