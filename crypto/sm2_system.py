"""SM2 with private keys through the system's libcrypto, which works in constant time.

libcrypto draws the nonce of a signature from a generator that a cloned process (a forked one, a
restored virtual machine) continues at the same place: two messages signed with one nonce give the
private key away. So the generator is reseeded before each signature, on the same thread, with a
secret digest of what is signed: RAND_add mixes it into the process's primary generator, and the
thread's private generator reseeds itself from there before its next output.

Source: GB/T 32918.2-2016, GB/T 32918.4-2016; RAND_add(3), EVP_DigestSign(3), EVP_PKEY-SM2(7).
"""

from __future__ import annotations

import ctypes
import hmac
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from crypto.errors import FormatError, InvalidTagError, UnavailableError
from crypto.kdf import hkdf_sm3
from crypto.labels import SM2_HEDGE, SM2_HEDGE_SECRET
from crypto.libcrypto import (
    KEYPAIR,
    PARAMETER_BYTES,
    PARAMETER_TEXT,
    PARAMETER_UNSIGNED,
    CallFailedError,
    LibCrypto,
    Parameter,
    load,
)
from crypto.sm2_ciphertext import Ciphertext
from crypto.sm2_curve import FIELD_BYTES, POINT_BYTES, Point, decode_point
from crypto.sm2_der import ciphertext_to_der, signature_from_der
from crypto.sm2_keys import PublicKey
from crypto.sm3 import DIGEST_BYTES, sm3

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_MAX_SIGNATURE_BYTES: Final = 80
_UNCOMPRESSED_FORM: Final = 4
"""POINT_CONVERSION_UNCOMPRESSED."""


class SystemProvider:
    """Private-key operations of libcrypto. A key is in its memory only during a call."""

    name = "libcrypto"

    def __init__(self, library: LibCrypto | None = None) -> None:
        """Use this library, or the first one of the system that can be used.

        Raises:
            UnavailableError: there is none.
        """
        self.library = load() if library is None else library

    def public_point(self, secret: ReadableBuffer) -> Point:
        """Return the public key of a secret.

        Raises:
            UnavailableError: libcrypto has no SM2.
        """
        new = self.library.new
        number = bytearray(secret)
        encoded = ctypes.create_string_buffer(POINT_BYTES)
        try:
            nid = self.library.call("OBJ_sn2nid", b"SM2")
            with (
                new("EC_GROUP_new_by_curve_name", nid, free="EC_GROUP_free") as group,
                new("EC_POINT_new", group, free="EC_POINT_clear_free") as point,
                new(
                    "BN_bin2bn", _address(number), FIELD_BYTES, None, free="BN_clear_free"
                ) as scalar,
            ):
                self.library.check("EC_POINT_mul", group, point, scalar, None, None, None)
                self.library.call(
                    "EC_POINT_point2oct",
                    group,
                    point,
                    _UNCOMPRESSED_FORM,
                    encoded,
                    POINT_BYTES,
                    None,
                )
        except CallFailedError as error:
            raise _unavailable(error) from error
        finally:
            _wipe(number)
        result = decode_point(encoded.raw)
        if result is None:
            raise UnavailableError("libcrypto gave no public key")
        return result

    def sign(
        self,
        secret: ReadableBuffer,
        public_key: PublicKey,
        message: bytes,
        identifier: bytes,
        digest: bytes,
    ) -> bytes:
        """Return a signature r || s (see `Provider.sign`).

        Raises:
            UnavailableError: libcrypto has no SM2, or could not sign.
        """
        hedge = hedge_of(secret, digest)
        library = self.library
        context = ctypes.c_void_p()
        size = ctypes.c_size_t(_MAX_SIGNATURE_BYTES)
        encoded = ctypes.create_string_buffer(_MAX_SIGNATURE_BYTES)
        try:
            with (
                self._key(secret, public_key) as key,
                library.new("EVP_MD_CTX_new", free="EVP_MD_CTX_free") as state,
            ):
                library.check(
                    "EVP_DigestSignInit",
                    state,
                    ctypes.byref(context),
                    library.call("EVP_sm3"),
                    None,
                    key,
                )
                library.check("EVP_PKEY_CTX_set1_id", context, identifier, len(identifier))
                library.call("RAND_add", hedge, len(hedge), 0.0)
                library.check(
                    "EVP_DigestSign", state, encoded, ctypes.byref(size), message, len(message)
                )
            return signature_from_der(encoded.raw[: size.value])
        except CallFailedError as error:
            raise _unavailable(error) from error
        except FormatError as error:
            raise UnavailableError("libcrypto gave a malformed signature") from error

    def decrypt(
        self, secret: ReadableBuffer, public_key: PublicKey, ciphertext: Ciphertext
    ) -> bytes:
        """Return the plain text of a ciphertext whose C1 is on the curve.

        Raises:
            InvalidTagError: libcrypto refused it.
            UnavailableError: libcrypto has no SM2.
        """
        library = self.library
        encoded = ciphertext_to_der(ciphertext.encode())
        # More room than the plain text needs: some versions guess its length from above.
        size = ctypes.c_size_t(len(encoded))
        plaintext = bytearray(len(encoded))
        try:
            with (
                self._key(secret, public_key) as key,
                library.new(
                    "EVP_PKEY_CTX_new_from_pkey", None, key, None, free="EVP_PKEY_CTX_free"
                ) as context,
            ):
                library.check("EVP_PKEY_decrypt_init", context)
                try:
                    library.check(
                        "EVP_PKEY_decrypt",
                        context,
                        _address(plaintext),
                        ctypes.byref(size),
                        encoded,
                        len(encoded),
                    )
                except CallFailedError:
                    raise InvalidTagError from None
            found = bytes(plaintext[: size.value])
        except CallFailedError as error:
            raise _unavailable(error) from error
        finally:
            _wipe(plaintext)
        # A mask of zeros, which the standard refuses, shows as a plain text equal to C2.
        if len(found) != len(ciphertext.c2) or hmac.compare_digest(found, ciphertext.c2):
            raise InvalidTagError
        return found

    @contextmanager
    def _key(self, secret: ReadableBuffer, public_key: PublicKey) -> Iterator[int]:
        """Lend an EVP_PKEY of a key pair."""
        number = bytearray(secret)
        if sys.byteorder == "little":
            number.reverse()
        group = bytearray(b"SM2")
        point = bytearray(public_key.to_bytes())
        parameters = (Parameter * 4)(
            Parameter(b"group", PARAMETER_TEXT, _address(group), len(group), 0),
            Parameter(b"priv", PARAMETER_UNSIGNED, _address(number), len(number), 0),
            Parameter(b"pub", PARAMETER_BYTES, _address(point), len(point), 0),
            Parameter(),
        )
        library = self.library
        key = ctypes.c_void_p()
        try:
            with library.new(
                "EVP_PKEY_CTX_new_from_name", None, b"SM2", None, free="EVP_PKEY_CTX_free"
            ) as context:
                library.check("EVP_PKEY_fromdata_init", context)
                library.check("EVP_PKEY_fromdata", context, ctypes.byref(key), KEYPAIR, parameters)
            yield key.value or 0
        finally:
            _wipe(number)
            library.call("EVP_PKEY_free", key)


def hedge_of(secret: ReadableBuffer, digest: bytes) -> bytes:
    """Return the 32 bytes that libcrypto's generator is reseeded with.

    The digest that is signed stands for message, identity and key together: two signatures that
    could betray the key differ in it.

    Args:
        secret: the private key, 32 bytes.
        digest: e = SM3(Z_A || message).
    """
    hedge_secret = hkdf_sm3(secret, b"", SM2_HEDGE_SECRET, DIGEST_BYTES)
    return sm3(SM2_HEDGE + hedge_secret + digest)


def _address(buffer: bytearray) -> int:
    """Return where a buffer lies; it must stay alive and keep its length while that is used."""
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


def _wipe(buffer: bytearray) -> None:
    """Fill a buffer with zeros."""
    buffer[:] = bytes(len(buffer))


def _unavailable(error: CallFailedError) -> UnavailableError:
    """Return what it means that a call failed."""
    return UnavailableError(f"libcrypto cannot compute with SM2 keys: {error} failed")
