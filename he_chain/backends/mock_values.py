"""Values of the imitation, and their bytes."""

from __future__ import annotations

import hashlib
import math
import os
import struct
from dataclasses import dataclass
from typing import Final

import numpy as np

from he_chain.backends.base import Values
from he_chain.backends.frame import frame, unframe
from he_chain.backends.rules import Rules
from he_chain.errors import HeChainError, ProtocolError, RangeError
from he_chain.noise import encode_noise
from he_chain.parameters import Parameters

KEY_ID_BYTES: Final = 16
_KIND: Final = b"mock"
_HEAD: Final = struct.Struct(f"<16s{KEY_ID_BYTES}sBdQ")
"""Digest of the parameters, key, level, scale, mask; the values of all slots follow."""
_MASK: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True, eq=False)
class MockCiphertext:
    """Values with the noise that they would have; nothing is hidden."""

    values: Values
    """float64[num_slots], not to be written to. They are not reduced by the modulus."""
    level: int
    scale: float
    key_id: bytes
    """Which secret key decrypts it; another one gives garbage."""
    mask: int
    """Stands for the polynomial that hides the values, modulo 2^64: sums add it up, other
    operations mix it. Where it is 0 nothing is hidden, which SEAL refuses to compute."""


@dataclass(frozen=True, slots=True, eq=False)
class MockPlain:
    """Encoded values."""

    values: Values
    level: int
    scale: float
    tag: bytes
    """Digest of what was encoded, which products mix into the mask."""


def fresh_mask() -> int:
    """Return what no other ciphertext has."""
    return int.from_bytes(os.urandom(8)) | 1


def mixed(*parts: object) -> int:
    """Return the mask of what an operation makes of its operands: always the same, never 0."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()) | 1


def summed(x: MockCiphertext, y: MockCiphertext, sign: int) -> int:
    """Return the mask of x + y or x - y.

    Raises:
        RangeError: the polynomials cancel, and with them what hides the result.
    """
    mask = (x.mask + sign * y.mask) & _MASK
    if not mask:
        raise RangeError("the operands are one ciphertext, the result would hide nothing")
    return mask


def fresh_key_id() -> bytes:
    """Return a name that no other key has."""
    return os.urandom(KEY_ID_BYTES)


def fresh_generator() -> np.random.Generator:
    """Return a source of noise that nobody can repeat."""
    return np.random.default_rng(int.from_bytes(os.urandom(32)))


def encode_mock(
    parameters: Parameters,
    rules: Rules,
    generator: np.random.Generator,
    operation: str,
    values: Values | float,
    level: int,
    scale: float,
) -> Values:
    """Return values as encoding leaves them; a single one has one coefficient, which is rounded.

    Raises:
        LevelError, ScaleError, RangeError: as `Evaluator.encode`.
    """
    rules.level(operation, level)
    rules.scale(operation, level, scale)
    array = rules.values(operation, values, level, scale)
    if array.ndim == 0:
        return np.full(parameters.num_slots, round(float(array) * scale) / scale)
    if math.sqrt(2) * float(np.max(np.abs(array))) * scale < 1 / 2:
        return np.zeros(parameters.num_slots)  # every coefficient rounds to zero
    rounding = generator.standard_normal(parameters.num_slots)
    return array + rounding * (encode_noise(parameters) / scale)


def dump_mock(parameters: Parameters, x: MockCiphertext) -> bytes:
    """Return a ciphertext as bytes."""
    head = _HEAD.pack(_digest(parameters), x.key_id, x.level, x.scale, x.mask)
    return frame(_KIND, head + x.values.astype("<f8").tobytes())


def load_mock(parameters: Parameters, rules: Rules, data: bytes) -> MockCiphertext:
    """Read what `dump_mock` wrote.

    Raises:
        ProtocolError: it is damaged, or of other parameters.
    """
    length = _HEAD.size + 8 * parameters.num_slots
    payload = unframe(_KIND, data, max_bytes=length)
    if len(payload) != length:
        raise ProtocolError("load: of other parameters, or cut off")
    digest, key_id, level, scale, mask = _HEAD.unpack(payload[: _HEAD.size])
    if not mask:
        raise ProtocolError("load: it hides nothing")
    if digest != _digest(parameters):
        raise ProtocolError("load: of other parameters")
    try:
        rules.level("load", level)
        rules.scale("load", level, scale)
    except HeChainError as error:
        raise ProtocolError(str(error)) from error
    values = np.frombuffer(payload[_HEAD.size :], dtype="<f8").astype(np.float64)
    if not np.isfinite(values).all():
        raise ProtocolError("load: a value is not finite")
    return MockCiphertext(values, level, scale, key_id, mask)


def _digest(parameters: Parameters) -> bytes:
    return hashlib.sha256(repr(parameters).encode()).digest()[:16]
