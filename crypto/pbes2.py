"""Private keys under a passphrase: EncryptedPrivateKeyInfo with PBES2.

Written is what every OpenSSL from 1.1 on reads: PBKDF2 with HMAC-SHA-256, then AES-256-CBC. (Only
OpenSSL 3.1 and later know HMAC-SM3 here.) There is no tag: a wrong passphrase shows as a padding or
a key that is malformed.

Source: RFC 8018 sections 5.2, 6.2 and A.4; GM/T 0091-2020 (identifiers of HMAC-SM3 and SM4).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from cryptography.hazmat.primitives.ciphers import BlockCipherAlgorithm, Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES, SM4
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.hashes import SHA256, SM3, HashAlgorithm
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC

from crypto.der import (
    INTEGER,
    OCTET_STRING,
    SEQUENCE,
    DerReader,
    encode,
    encode_integer,
    object_identifier,
)
from crypto.errors import KeyFileError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

WRITTEN_ITERATIONS: Final = 600_000
MAX_ITERATIONS: Final = 10_000_000

_PBES2: Final = object_identifier("1.2.840.113549.1.5.13")
_PBKDF2: Final = object_identifier("1.2.840.113549.1.5.12")
_HMAC_SHA256: Final = object_identifier("1.2.840.113549.2.9")
_AES_256_CBC: Final = object_identifier("2.16.840.1.101.3.4.1.42")
_NULL: Final = b"\x05\x00"

_SALT_BYTES: Final = 16
_MIN_SALT_BYTES: Final = 8
_MAX_SALT_BYTES: Final = 64
_BLOCK_BYTES: Final = 16
_MAX_ITERATIONS_BYTES: Final = 8


class _CipherChoice(NamedTuple):
    algorithm: Callable[[bytes], BlockCipherAlgorithm]
    key_bytes: int


_CIPHERS: Final = {
    _AES_256_CBC: _CipherChoice(AES, 32),
    object_identifier("2.16.840.1.101.3.4.1.2"): _CipherChoice(AES, 16),
    object_identifier("1.2.156.10197.1.104.2"): _CipherChoice(SM4, 16),
}
_HASHES: Final[dict[bytes, type[HashAlgorithm]]] = {
    _HMAC_SHA256: SHA256,
    object_identifier("1.2.156.10197.1.401.3.1"): SM3,  # GM/T 0091-2020, OpenSSL
    object_identifier("1.2.156.10197.1.401.2"): SM3,  # GmSSL
}


class _Parameters(NamedTuple):
    salt: bytes
    iterations: int
    hash: type[HashAlgorithm]
    cipher: _CipherChoice
    initial_block: bytes


def encrypt_pkcs8(info: bytes, passphrase: ReadableBuffer) -> bytes:
    """Return the EncryptedPrivateKeyInfo around a PrivateKeyInfo."""
    salt, initial_block = secrets.token_bytes(_SALT_BYTES), secrets.token_bytes(_BLOCK_BYTES)
    parameters = _Parameters(
        salt, WRITTEN_ITERATIONS, SHA256, _CIPHERS[_AES_256_CBC], initial_block
    )
    encryptor = _cipher(parameters, passphrase).encryptor()
    filling = _BLOCK_BYTES - len(info) % _BLOCK_BYTES
    encrypted = encryptor.update(info + bytes((filling,)) * filling) + encryptor.finalize()
    derivation = encode(
        SEQUENCE,
        encode(OCTET_STRING, salt),
        encode_integer(WRITTEN_ITERATIONS),
        encode(SEQUENCE, _HMAC_SHA256, _NULL),
    )
    scheme = encode(
        SEQUENCE,
        encode(SEQUENCE, _PBKDF2, derivation),
        encode(SEQUENCE, _AES_256_CBC, encode(OCTET_STRING, initial_block)),
    )
    algorithm = encode(SEQUENCE, _PBES2, scheme)
    return encode(SEQUENCE, algorithm, encode(OCTET_STRING, encrypted))


def decrypt_pkcs8(data: bytes, passphrase: ReadableBuffer) -> bytes:
    """Return what an EncryptedPrivateKeyInfo holds; it may be anything if the passphrase is wrong.

    Raises:
        FormatError: the encoding breaks a DER rule.
        KeyFileError: `format`: another scheme; `iterations`: more than 10,000,000 or none, refused
            before anything is derived; `passphrase`: it is wrong, or the file was altered.
    """
    outer = DerReader(data)
    reader = outer.sequence()
    outer.finish()
    parameters = _read_scheme(reader.sequence())
    encrypted = reader.octet_string()
    reader.finish()
    if not encrypted or len(encrypted) % _BLOCK_BYTES:
        raise KeyFileError("format", "the encrypted key is not made of whole blocks")
    decryptor = _cipher(parameters, passphrase).decryptor()
    padded = decryptor.update(encrypted) + decryptor.finalize()
    filling = padded[-1]
    if not 1 <= filling <= _BLOCK_BYTES or padded[-filling:] != bytes((filling,)) * filling:
        raise wrong_passphrase()
    return padded[:-filling]


def wrong_passphrase() -> KeyFileError:
    """Return the error of a passphrase that does not open the key."""
    return KeyFileError("passphrase", "the passphrase is wrong, or the file was altered")


def _read_scheme(reader: DerReader) -> _Parameters:
    """Take an AlgorithmIdentifier of PBES2."""
    _expect(reader.object_identifier() == _PBES2)
    scheme = reader.sequence()
    reader.finish()
    derivation = scheme.sequence()
    encryption = scheme.sequence()
    scheme.finish()
    cipher = _CIPHERS.get(encryption.object_identifier())
    _expect(cipher is not None)
    initial_block = encryption.octet_string()
    encryption.finish()
    _expect(len(initial_block) == _BLOCK_BYTES)
    _expect(derivation.object_identifier() == _PBKDF2)
    details = derivation.sequence()
    derivation.finish()
    salt = details.octet_string()
    _expect(_MIN_SALT_BYTES <= len(salt) <= _MAX_SALT_BYTES)
    iterations = details.integer(_MAX_ITERATIONS_BYTES)
    if not 1 <= iterations <= MAX_ITERATIONS:
        raise KeyFileError("iterations", f"{iterations} iterations are not 1 .. {MAX_ITERATIONS}")
    if details.next_tag() == INTEGER:
        _expect(cipher is not None and details.integer(1) == cipher.key_bytes)
    _expect(details.next_tag() == SEQUENCE)  # without one it is HMAC-SHA-1
    function = details.sequence()
    details.finish()
    hash_algorithm = _HASHES.get(function.object_identifier())
    if function.next_tag() is not None:
        function.null()
    function.finish()
    if cipher is None or hash_algorithm is None:
        raise _other_scheme()
    return _Parameters(salt, iterations, hash_algorithm, cipher, initial_block)


def _expect(condition: bool) -> None:
    """Refuse a scheme that is not read here."""
    if not condition:
        raise _other_scheme()


def _other_scheme() -> KeyFileError:
    """Return the error of a scheme that is not read here, and the way out."""
    return KeyFileError(
        "format",
        "the key is encrypted in a way that is not read here; "
        "`openssl pkcs8 -topk8 -v2 aes-256-cbc -v2prf hmacWithSHA256` writes one that is",
    )


def _cipher(parameters: _Parameters, passphrase: ReadableBuffer) -> Cipher[CBC]:
    """Derive the key and return the cipher."""
    derivation = PBKDF2HMAC(
        parameters.hash(), parameters.cipher.key_bytes, parameters.salt, parameters.iterations
    )
    key = derivation.derive(memoryview(passphrase))
    return Cipher(parameters.cipher.algorithm(key), CBC(parameters.initial_block))
