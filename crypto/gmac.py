"""SM4-GMAC with a key that never leaves the process: whether bytes are those that were seen before.

The universal hash of Galois/counter mode is several times as fast as SM3 where the CPU multiplies
polynomials. It serves one process, which compares what it reads again with what it accepted by
other means; no format has such tags, and nobody is shown one.

Source: GB/T 36624-2018 and NIST SP 800-38D (Galois/counter mode, and GMAC, which is that without a
plain text), RFC 8998 (SM4 in it, and the vector of its appendix A.1).
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.ciphers import AEADEncryptionContext, Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import SM4
from cryptography.hazmat.primitives.ciphers.modes import GCM

from crypto.errors import SelfTestError, UnavailableError
from crypto.private_file import wipe
from crypto.sm4 import KEY_BYTES

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_NONCE_BYTES: Final = 12
_KNOWN_KEY: Final = bytes.fromhex("0123456789abcdeffedcba9876543210")
_KNOWN_NONCE: Final = bytes.fromhex("00001234567800000000abcd")
_KNOWN_DATA: Final = bytes.fromhex("feedfacedeadbeeffeedfacedeadbeefabaddad2")
_KNOWN_TEXT: Final = b"".join(bytes([byte]) * 8 for byte in b"\xaa\xbb\xcc\xdd\xee\xff\xee\xaa")
_KNOWN_TAG: Final = bytes.fromhex("83de3541e4c2b58177e065a9bf7b62ec")


class Sm4Gmac:
    """Tags under a key of this object's own.

    Security: the tags are to stay where the key does. Who cannot see them and tries n messages of
    m bytes finds one with the tag of another with a probability of at most n (m / 16 + 2) / 2^128.
    """

    def __init__(self) -> None:
        """Draw a key.

        Raises:
            UnavailableError: the library inside `cryptography` has no SM4-GCM (OpenSSL before 3.1).
            SelfTestError: it computes something else.
        """
        _check_library()
        self._key = bytearray(secrets.token_bytes(KEY_BYTES))

    def tag(self, number: int, data: ReadableBuffer) -> bytes:
        """Return 16 bytes for `data` (any contiguous buffer) at a place, 0 .. 2^96 - 1.

        Two data at different places have different tags, whether they are equal or not.
        """
        context = _start(self._key, number.to_bytes(_NONCE_BYTES, "big"))
        context.authenticate_additional_data(memoryview(data).cast("B"))
        context.finalize()
        return context.tag

    def wipe(self) -> None:
        """Overwrite the key; the object makes other tags from now on."""
        wipe(self._key)


def _start(key: bytes | bytearray, nonce: bytes) -> AEADEncryptionContext:
    return Cipher(SM4(bytes(key)), GCM(nonce)).encryptor()


def _check_library() -> None:
    try:
        context = _start(_KNOWN_KEY, _KNOWN_NONCE)
    except UnsupportedAlgorithm as error:
        raise UnavailableError("the OpenSSL that is used has no SM4-GCM") from error
    context.authenticate_additional_data(_KNOWN_DATA)
    context.update(_KNOWN_TEXT)
    context.finalize()
    if context.tag != _KNOWN_TAG:
        raise SelfTestError("SM4-GCM gives a wrong tag")
