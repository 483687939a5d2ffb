"""The side that has a secret key of SEAL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from crypto.errors import KeyFileError
from crypto.private_file import read_private_file, wipe
from he_chain.backends.base import Values
from he_chain.backends.frame import OVERHEAD, frame_head, unframe
from he_chain.backends.key_folder import SECRET, FolderHeader, read_header, write_file, write_header
from he_chain.backends.seal_context import SealContext
from he_chain.backends.seal_keys import BACKEND, write_keys
from he_chain.backends.seal_library import from_bytes, to_bytes, translated
from he_chain.errors import SecurityError
from he_chain.parameters import Parameters
from he_chain.planning.sizes import max_secret_key_file_bytes
from he_chain.security import Security

_SECRET: Final = b"secr"
_OWNER_ONLY: Final = 0o600


class SealHolder:
    """`Holder` on SEAL; its randomness is SEAL's, seeded by the system."""

    def __init__(self, context: SealContext, secret_key: Any) -> None:  # noqa: ANN401 - no types
        """Take a context and a secret key that belongs to it."""
        self.parameters = context.parameters
        self.counts: Counter[str] = Counter()
        self._context = context
        self._secret_key = secret_key
        self._encryptor = context.library.Encryptor(context.raw, secret_key)
        self._decryptor = context.library.Decryptor(context.raw, secret_key)

    @classmethod
    def create(cls, parameters: Parameters, security_bits: int = 128) -> Self:
        """Make a new secret key.

        Raises:
            SecurityError: the parameters are below the wanted security.
            BackendError: the library is absent or refuses.
        """
        context = SealContext(parameters, security_bits)
        with translated("key"):
            secret_key = context.library.KeyGenerator(context.raw).secret_key()
        return cls(context, secret_key)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Read what `save` wrote.

        Raises:
            SecurityError: others than its owner can read the secret key, or it is not there.
            ProtocolError: a file is damaged, or of other parameters.
            BackendError: the library is absent or refuses.
        """
        header = read_header(folder, BACKEND)
        context = SealContext(header.parameters, header.security_bits)
        limit = max_secret_key_file_bytes(header.parameters)
        try:
            data = read_private_file(folder / SECRET, max_bytes=limit + OVERHEAD)
        except KeyFileError as error:
            raise SecurityError(str(error)) from error
        try:
            secret_key = context.library.SecretKey()
            payload = unframe(_SECRET, memoryview(data), max_bytes=limit)
            from_bytes(SECRET, lambda path: secret_key.load(context.raw, path), payload)
        finally:
            wipe(data)
        return cls(context, secret_key)

    @property
    def security(self) -> Security:
        """What may be said about the parameters."""
        return self._context.security

    @property
    def primes(self) -> tuple[int, ...]:
        """As of the evaluator."""
        return self._context.primes

    def save(self, folder: Path) -> None:
        """Write parameters.json and secret.key, which only its owner may read.

        Raises:
            crypto.errors.WriteError: a file exists already, or the file system refuses.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        content = to_bytes(SECRET, self._secret_key.save)
        try:
            head = frame_head(_SECRET, content)
            write_file(folder / SECRET, head, content, mode=_OWNER_ONLY)
        finally:
            wipe(content)
        write_header(folder, FolderHeader(BACKEND, self.parameters, self.security.bits))

    def write_evaluation_keys(self, folder: Path, rotations: Collection[int]) -> int:
        """Write what an evaluator needs; see `Holder`.

        Raises:
            SecurityError: the folder has a secret key.
            crypto.errors.WriteError: a file exists already, or the file system refuses.
        """
        return write_keys(folder, self._context, self._secret_key, rotations)

    def encrypt(self, values: Values, level: int | None = None) -> bytes:
        """Encrypt values; see `Holder`. Symmetric, so that half of it is a seed."""
        top = self.parameters.num_levels if level is None else level
        plain = self._context.encode("encrypt", values, top, 2.0**self.parameters.scale_bits)
        with translated("encrypt"):
            seeded = self._encryptor.encrypt_symmetric(plain.raw)
        self.counts["encrypts"] += 1
        return self._context.dump(seeded)

    def decrypt(self, data: bytes) -> Values:
        """Decrypt; see `Holder`.

        Values that have wrapped around, or of another key, come out as numbers like any others.
        """
        ciphertext = self._context.load(data)
        plain = self._context.library.Plaintext()
        with translated("decrypt"):
            self._decryptor.decrypt(ciphertext.raw, plain)
        values = np.array(self._context.decode(plain), dtype=np.float64)
        self.counts["decrypts"] += 1
        return values
