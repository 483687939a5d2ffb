"""The side of the imitation that would have the secret key."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Final, Self

import numpy as np

from crypto.errors import KeyFileError
from crypto.private_file import read_private_file
from he_chain.backends.base import Values
from he_chain.backends.frame import OVERHEAD, frame, unframe
from he_chain.backends.key_folder import (
    PUBLIC,
    SECRET,
    FolderHeader,
    read_header,
    refuse_secret_key,
    write_file,
    write_header,
)
from he_chain.backends.mock_evaluator import BACKEND, KEY
from he_chain.backends.mock_values import (
    KEY_ID_BYTES,
    MockCiphertext,
    dump_mock,
    encode_mock,
    fresh_generator,
    fresh_key_id,
    fresh_mask,
    load_mock,
)
from he_chain.backends.rules import Rules
from he_chain.errors import SecurityError
from he_chain.noise import KEY_DEVIATION
from he_chain.parameters import Parameters
from he_chain.primes import chain_primes

_OWNER_ONLY: Final = 0o600


class MockHolder:
    """`Holder` without encryption, so that every ring will do."""

    def __init__(
        self, parameters: Parameters, key_id: bytes, generator: np.random.Generator | None = None
    ) -> None:
        """Take parameters, a key's name, and where noise comes from: by default, the system."""
        self.parameters = parameters
        self.primes = chain_primes(parameters)[:-1]
        self.counts: Counter[str] = Counter()
        self._rules = Rules(parameters, self.primes)
        self._key_id = key_id
        self._generator = fresh_generator() if generator is None else generator

    @classmethod
    def create(cls, parameters: Parameters, generator: np.random.Generator | None = None) -> Self:
        """Make a new key."""
        return cls(parameters, fresh_key_id(), generator)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Read what `save` wrote.

        Raises:
            SecurityError: others than its owner can read the secret key, or it is not there.
            ProtocolError: a file is damaged.
        """
        header = read_header(folder, BACKEND)
        try:
            data = read_private_file(folder / SECRET, max_bytes=KEY_ID_BYTES + OVERHEAD)
        except KeyFileError as error:
            raise SecurityError(str(error)) from error
        return cls(header.parameters, bytes(unframe(KEY, bytes(data), max_bytes=KEY_ID_BYTES)))

    def save(self, folder: Path) -> None:
        """Write parameters.json and secret.key, which only its owner may read.

        Raises:
            crypto.errors.WriteError: a file exists already, or the file system refuses.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(folder / SECRET, frame(KEY, self._key_id), mode=_OWNER_ONLY)
        write_header(folder, FolderHeader(BACKEND, self.parameters, 0))

    def write_evaluation_keys(self, folder: Path, rotations: Collection[int]) -> int:
        """Write what an evaluator needs; see `Holder`.

        Raises:
            SecurityError: the folder has a secret key.
            crypto.errors.WriteError: a file exists already, or the file system refuses.
        """
        folder.mkdir(parents=True, exist_ok=True)
        refuse_secret_key(folder)
        steps = tuple(sorted({self._rules.steps(steps) for steps in rotations} - {0}))
        written = write_file(folder / PUBLIC, frame(KEY, self._key_id))
        return written + write_header(folder, FolderHeader(BACKEND, self.parameters, 0, steps))

    def encrypt(self, values: Values, level: int | None = None) -> bytes:
        """Encrypt values; see `Holder`."""
        top = self.parameters.num_levels if level is None else level
        scale = 2.0**self.parameters.scale_bits
        encoded = encode_mock(
            self.parameters, self._rules, self._generator, "encrypt", values, top, scale
        )
        deviation = KEY_DEVIATION * math.sqrt(self.parameters.ring_degree / 2) / scale
        noise = self._generator.standard_normal(encoded.shape) * deviation
        self.counts["encrypts"] += 1
        return dump_mock(
            self.parameters, MockCiphertext(encoded + noise, top, scale, self._key_id, fresh_mask())
        )

    def decrypt(self, data: bytes) -> Values:
        """Decrypt; see `Holder`.

        What is beyond half the modulus comes back as what is left of it modulo the modulus. A real
        ciphertext does so by coefficients: the same for equal values in all slots, later for
        others. With another key all of it is uniform.
        """
        x = load_mock(self.parameters, self._rules, data)
        self.counts["decrypts"] += 1
        modulus = math.prod(self.primes[: x.level + 1]) / x.scale
        if x.key_id != self._key_id:
            return self._generator.uniform(-modulus / 2, modulus / 2, self.parameters.num_slots)
        wraps = np.round(x.values / modulus)
        return np.asarray(x.values - wraps * modulus)
