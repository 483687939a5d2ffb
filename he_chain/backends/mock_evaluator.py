"""An imitation of CKKS: plain values with calibrated noise, and every refusal of the real thing."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Final, Self

import numpy as np

from he_chain.backends.base import Ciphertext, Plain, Values
from he_chain.backends.frame import OVERHEAD, unframe
from he_chain.backends.key_folder import PUBLIC, read_file, read_header, refuse_secret_key
from he_chain.backends.mock_values import (
    KEY_ID_BYTES,
    MockCiphertext,
    MockPlain,
    dump_mock,
    encode_mock,
    fresh_generator,
    fresh_key_id,
    fresh_mask,
    load_mock,
    mixed,
    summed,
)
from he_chain.backends.rules import Rules
from he_chain.errors import BackendError, RangeError
from he_chain.noise import (
    key_switch_bias,
    key_switch_noise,
    public_noise,
    rescale_noise,
)
from he_chain.parameters import Parameters
from he_chain.primes import chain_primes

BACKEND: Final = "mock"
KEY: Final = b"mkey"
_RELIN: Final = 0
"""The relinearisation key's place among the rotations."""


class MockEvaluator:
    """`Evaluator` without encryption: for tests and for estimates of precision."""

    def __init__(
        self,
        parameters: Parameters,
        key_id: bytes,
        rotations: Collection[int],
        generator: np.random.Generator | None = None,
    ) -> None:
        """Take what a folder of keys says, and where noise comes from: by default, the system."""
        self.parameters = parameters
        self.primes = chain_primes(parameters)[:-1]
        self.counts: Counter[str] = Counter()
        self._rules = Rules(parameters, self.primes)
        self._key_id = key_id
        self._rotations = frozenset(self._rules.steps(steps) for steps in rotations) - {0}
        self._generator = fresh_generator() if generator is None else generator
        self._biases: dict[int, Values] = {}

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Read the keys that a holder wrote into a folder.

        Raises:
            SecurityError: a secret key is in it.
            ProtocolError: a file is absent or damaged.
        """
        refuse_secret_key(folder)
        header = read_header(folder, BACKEND)
        data = read_file(folder / PUBLIC, max_bytes=KEY_ID_BYTES + OVERHEAD)
        key_id = bytes(unframe(KEY, data, max_bytes=KEY_ID_BYTES))
        return cls(header.parameters, key_id, header.rotations)

    @property
    def rotations(self) -> frozenset[int]:
        """Steps to the left that there are keys for, 1..num_slots - 1."""
        return self._rotations

    def encode(self, values: Values | float, level: int, scale: float) -> MockPlain:
        """Encode values; see `Evaluator`."""
        encoded = self._encode("encode", values, level, scale)
        self.counts["encodes"] += 1
        tag = hashlib.sha256(np.ascontiguousarray(values, dtype=np.float64).data).digest()
        return MockPlain(encoded, level, scale, tag)

    def encrypt(self, values: Values, level: int | None = None) -> MockCiphertext:
        """Encrypt with the public key, at the scale of the parameters; as `Holder.encrypt`."""
        top = self.parameters.num_levels if level is None else level
        scale = 2.0**self.parameters.scale_bits
        encoded = self._encode("encrypt", values, top, scale)
        self.counts["encrypts"] += 1
        noisy = self._noisy(encoded, public_noise(self.parameters), scale)
        return MockCiphertext(noisy, top, scale, self._key_id, fresh_mask())

    def add(self, x: Ciphertext, y: Ciphertext) -> MockCiphertext:
        """Return x + y; see `Evaluator`."""
        mock_x, mock_y = _ciphertext(x), _ciphertext(y)
        return self._sum("add", mock_x, mock_y, 1)

    def sub(self, x: Ciphertext, y: Ciphertext) -> MockCiphertext:
        """Return x - y; see `Evaluator`."""
        mock_x, mock_y = _ciphertext(x), _ciphertext(y)
        return self._sum("sub", mock_x, mock_y, -1)

    def add_plain(self, x: Ciphertext, y: Plain) -> MockCiphertext:
        """Return x + y; see `Evaluator`."""
        mock_x, mock_y = _ciphertext(x), _plain(y)
        return self._sum_plain("add_plain", mock_x, mock_y, mock_x.values + mock_y.values)

    def sub_plain(self, x: Ciphertext, y: Plain) -> MockCiphertext:
        """Return x - y; see `Evaluator`."""
        mock_x, mock_y = _ciphertext(x), _plain(y)
        return self._sum_plain("sub_plain", mock_x, mock_y, mock_x.values - mock_y.values)

    def mul_plain(self, x: Ciphertext, y: Plain) -> MockCiphertext:
        """Return x * y; see `Evaluator`."""
        mock_x, mock_y = _ciphertext(x), _plain(y)
        self._rules.same_level("mul_plain", x, y)
        scale = self._rules.product_scale("mul_plain", x, y)
        if not mock_y.values.any():
            raise RangeError("mul_plain: the plain is zero, the product would hide nothing")
        self.counts["ct_pt"] += 1
        mask = mixed("mul_plain", mock_x.mask, mock_y.tag, mock_y.scale)
        return MockCiphertext(mock_x.values * mock_y.values, x.level, scale, mock_x.key_id, mask)

    def mul(self, x: Ciphertext, y: Ciphertext) -> MockCiphertext:
        """Return x * y; see `Evaluator`."""
        mock_x, mock_y = _ciphertext(x), _ciphertext(y)
        scale = self._rules.product_scale("mul", x, y)
        level = min(x.level, y.level)
        product = self._switched(mock_x.values * mock_y.values, level, scale, _RELIN)
        self.counts["ct_ct"] += 1
        mask = mixed("mul", level, *sorted((mock_x.mask, mock_y.mask)))
        key_id = self._key(mock_x, mock_y, switched=True)
        return MockCiphertext(product, level, scale, key_id, mask)

    def rescale(self, x: Ciphertext) -> MockCiphertext:
        """Divide by primes[level]; see `Evaluator`."""
        mock_x = _ciphertext(x)
        level = self._rules.rescaled("rescale", x)
        scale = x.scale / self.primes[x.level]
        self.counts["rescales"] += 1
        values = self._noisy(mock_x.values, rescale_noise(self.parameters), scale)
        mask = mixed("rescale", x.level, mock_x.mask)
        return MockCiphertext(values, level, scale, mock_x.key_id, mask)

    def to_level(self, x: Ciphertext, level: int) -> MockCiphertext:
        """Drop primes; see `Evaluator`."""
        mock_x = _ciphertext(x)
        self._rules.lower("to_level", x, level)
        return MockCiphertext(mock_x.values, level, x.scale, mock_x.key_id, mock_x.mask)

    def rotate(self, x: Ciphertext, steps: int) -> MockCiphertext:
        """Rotate to the left; see `Evaluator`."""
        mock_x, left = _ciphertext(x), self._rules.steps(steps)
        if left == 0:
            return mock_x
        if left not in self._rotations:
            raise BackendError(f"rotate: there is no key for {steps} steps to the left")
        rotated = self._switched(np.roll(mock_x.values, -left), x.level, x.scale, left)
        self.counts["rotations"] += 1
        mask = mixed("rotate", left, x.level, mock_x.mask)
        return MockCiphertext(rotated, x.level, x.scale, self._key(mock_x, switched=True), mask)

    def dump(self, x: Ciphertext) -> bytes:
        """Return it as bytes."""
        return dump_mock(self.parameters, _ciphertext(x))

    def load(self, data: bytes) -> MockCiphertext:
        """Read what `dump` wrote, or a holder; see `Evaluator`."""
        return load_mock(self.parameters, self._rules, data)

    def _encode(self, operation: str, values: Values | float, level: int, scale: float) -> Values:
        return encode_mock(
            self.parameters, self._rules, self._generator, operation, values, level, scale
        )

    def _sum(
        self, operation: str, x: MockCiphertext, y: MockCiphertext, sign: int
    ) -> MockCiphertext:
        scale = self._rules.sum_scale(operation, x, y)
        level = min(x.level, y.level)
        self._rules.scale(operation, level, scale)
        mask = summed(x, y, sign)
        return MockCiphertext(x.values + sign * y.values, level, scale, self._key(x, y), mask)

    def _sum_plain(
        self, operation: str, x: MockCiphertext, y: MockPlain, values: Values
    ) -> MockCiphertext:
        self._rules.same_level(operation, x, y)
        scale = self._rules.sum_scale(operation, x, y)
        return MockCiphertext(values, x.level, scale, x.key_id, x.mask)

    def _key(self, *operands: MockCiphertext, switched: bool = False) -> bytes:
        """Return the key of a result: nobody's, when the keys that went into it differ."""
        names = {operand.key_id for operand in operands} | ({self._key_id} if switched else set())
        return names.pop() if len(names) == 1 else fresh_key_id()

    def _switched(self, values: Values, level: int, scale: float, key: int) -> Values:
        """Return values with the noise of a key's use."""
        if key not in self._biases:
            self._biases[key] = self._generator.standard_normal(self.parameters.num_slots)
        bias = self._biases[key] * key_switch_bias(self.parameters, level)
        return self._noisy(values + bias / scale, key_switch_noise(self.parameters, level), scale)

    def _noisy(self, values: Values, deviation: float, scale: float) -> Values:
        return values + self._generator.standard_normal(values.shape) * (deviation / scale)


def _ciphertext(x: Ciphertext) -> MockCiphertext:
    if not isinstance(x, MockCiphertext):
        raise BackendError(f"a {type(x).__name__} is no ciphertext of the imitation")
    return x


def _plain(x: Plain) -> MockPlain:
    if not isinstance(x, MockPlain):
        raise BackendError(f"a {type(x).__name__} is no plain of the imitation")
    return x
