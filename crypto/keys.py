"""Key files: PKCS#8 and SubjectPublicKeyInfo in PEM, as `openssl pkey` reads and writes them.

A line before the block names what the key is for; OpenSSL ignores it. It is not authenticated: it
catches mistakes, and the trust file decides. Codes of `KeyFileError` are in crypto/README.md.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from crypto.atomic import AtomicFile
from crypto.errors import FormatError, KeyFileError
from crypto.pbes2 import decrypt_pkcs8, encrypt_pkcs8, wrong_passphrase
from crypto.pem import PemKey, decode_pem, encode_pem
from crypto.pkcs8 import decode_pkcs8, encode_pkcs8
from crypto.private_file import read_private_file, read_until_end, wipe
from crypto.sm2 import PrivateKey, PublicKey

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, StrPath

ROLES: Final = ("weights", "software", "attest", "witness", "revoke", "unseal")
MAX_FILE_BYTES: Final = 65_536
MAX_PASSPHRASE_BYTES: Final = 1024

_PRIVATE: Final = "PRIVATE KEY"
_ENCRYPTED: Final = "ENCRYPTED PRIVATE KEY"
_PUBLIC: Final = "PUBLIC KEY"
_OLD_FORM: Final = "a key in the old form; `openssl pkey -in OLD -out NEW` writes PKCS#8"
_HINTS: Final = {
    "EC PRIVATE KEY": _OLD_FORM,
    "SM2 PRIVATE KEY": _OLD_FORM,  # as `openssl ec` of version 3 calls it
    "EC PARAMETERS": "the parameters of a curve and no key",
    "RSA PRIVATE KEY": "a key of RSA; an SM2 key is needed",
    "RSA PUBLIC KEY": "a key of RSA; an SM2 key is needed",
    "OPENSSH PRIVATE KEY": "a key of OpenSSH; an SM2 key in PKCS#8 is needed",
    "CERTIFICATE": "a certificate; `openssl x509 -pubkey -noout` takes the key out of it",
    "CERTIFICATE REQUEST": "a request for a certificate and no key",
    _PRIVATE: "a private key where a public one belongs; `openssl pkey -pubout` takes it out",
    _ENCRYPTED: "a private key where a public one belongs; `openssl pkey -pubout` takes it out",
    _PUBLIC: "a public key where a private one belongs",
}


def write_private_key(
    path: StrPath, key: PrivateKey, *, role: str, passphrase: ReadableBuffer | None
) -> None:
    """Write a private key to a new file of mode 0600; an existing file is never replaced.

    Args:
        path: the file.
        key: what is written.
        role: one of `ROLES`.
        passphrase: 1 .. 1024 bytes to encrypt it under; None writes it as it is.

    Raises:
        ValueError: the role is none, the passphrase has another length, or the key was wiped.
        WriteError: the file exists, or the file system refused; nothing is left behind.
    """
    _check_role(role)
    info = encode_pkcs8(key)
    if passphrase is None:
        content = encode_pem(_PRIVATE, info, role)
    else:
        if not 1 <= memoryview(passphrase).nbytes <= MAX_PASSPHRASE_BYTES:
            raise ValueError(f"a passphrase has 1 .. {MAX_PASSPHRASE_BYTES} bytes")
        content = encode_pem(_ENCRYPTED, encrypt_pkcs8(info, passphrase), role)
    _write(path, content, 0o600)


def write_public_key(path: StrPath, public_key: PublicKey, *, role: str) -> None:
    """Write a public key to a new file of mode 0644; an existing file is never replaced.

    Raises:
        ValueError: the role is none of `ROLES`.
        WriteError: the file exists, or the file system refused; nothing is left behind.
    """
    _check_role(role)
    _write(path, encode_pem(_PUBLIC, public_key.spki_der(), role), 0o644)


def load_private_key(
    path: StrPath,
    *,
    passphrase: Callable[[], ReadableBuffer] | ReadableBuffer | None,
    role: str | None,
) -> PrivateKey:
    """Return the private key in a file that only its owner can get at.

    Args:
        path: the file; no symbolic link.
        passphrase: the passphrase, or what asks for it; not looked at if the key is not encrypted.
        role: what the key is wanted for; None takes any.

    Raises:
        KeyFileError: the codes of `read_private_file`; `format`, `range`, `iterations`,
            `encrypted` (and there is no passphrase), `passphrase` (wrong, or the file was altered),
            `role`.
        UnavailableError: libcrypto could not compute.
    """
    data = read_private_file(path, max_bytes=MAX_FILE_BYTES)
    try:
        with _named(path):
            pem = decode_pem(bytes(data))
            _expect(pem, (_PRIVATE, _ENCRYPTED), role)
            if pem.label == _PRIVATE:
                return decode_pkcs8(pem.content)
            if passphrase is None:
                raise KeyFileError("encrypted", "the key is encrypted, and there is no passphrase")
            opened = decrypt_pkcs8(
                pem.content, passphrase() if callable(passphrase) else passphrase
            )
            try:
                return decode_pkcs8(opened)
            except FormatError:
                raise wrong_passphrase() from None
    finally:
        wipe(data)


def load_public_key(source: StrPath | bytes, *, role: str | None) -> PublicKey:
    """Return the public key in a file, or in the content of one.

    Args:
        source: a path, or the bytes of a PEM file.
        role: what the key is wanted for; None takes any.

    Raises:
        KeyFileError: `missing`, `unreadable`, `kind`, `size`, `format`, `role`.
    """
    name, data = ("the public key", source) if isinstance(source, bytes) else _read(source)
    with _named(name):
        pem = decode_pem(data)
        _expect(pem, (_PUBLIC,), role)
        return PublicKey.from_spki_der(pem.content)


def _check_role(role: str) -> None:
    """Refuse to write a role that no reader knows."""
    if role not in ROLES:
        raise ValueError(f"{role!r} is none of the roles {', '.join(ROLES)}")


def _expect(pem: PemKey, labels: tuple[str, ...], role: str | None) -> None:
    """Refuse another kind of file, and a key that is for something else."""
    if pem.label not in labels:
        raise KeyFileError("format", _HINTS.get(pem.label, f"a block {pem.label} and no key"))
    if pem.role is not None and pem.role not in ROLES:
        raise KeyFileError("role", f"its role is none of {', '.join(ROLES)}")
    if role is not None and pem.role is not None and pem.role != role:
        raise KeyFileError("role", f"the key has the role {pem.role}, and {role} is needed")


@contextmanager
def _named(name: StrPath) -> Iterator[None]:
    """Put the name of the file before what is wrong with it."""
    try:
        yield
    except KeyFileError as error:
        raise KeyFileError(error.reason, f"{name}: {error}") from None
    except FormatError as error:
        raise KeyFileError(
            "format", f"{name}: byte {error.offset} of the key is malformed ({error.rule})"
        ) from None


def _read(path: StrPath) -> tuple[StrPath, bytes]:
    """Return the name and the content of a file that anybody may read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except FileNotFoundError:
        raise KeyFileError("missing", f"{path}: no such file") from None
    except OSError as error:
        raise KeyFileError("unreadable", f"{path}: {error.strerror}") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise KeyFileError("kind", f"{path}: not a regular file")
        return path, bytes(read_until_end(descriptor, path, max_bytes=MAX_FILE_BYTES))
    finally:
        os.close(descriptor)


def _write(path: StrPath, content: bytes, mode: int) -> None:
    """Write a new file that is whole and on the disk before it has its name."""
    with AtomicFile(Path(path), force=False, mode=mode) as file:
        file.create()
        file.write_at(0, content)
        file.commit()
