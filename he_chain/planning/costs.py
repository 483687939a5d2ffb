"""Seconds and bytes of operations, for plans: a table that a benchmark may replace."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from he_chain.parameters import Parameters

_REFERENCE_DEGREE: Final = 16384
_SEED_BYTES: Final = 64
_COMPRESSED_EXTRA: Final = 0.95
"""Bytes that a compressed residue takes above its bits' eighths (SEAL 4.1, Zstandard)."""
_WORD: Final = 8.1


@dataclass(frozen=True)
class OperationCost:
    """Seconds at N = 16384 of an operation on n primes: linear * n + quadratic * n^2."""

    linear: float
    quadratic: float = 0.0

    def seconds(self, parameters: Parameters, level: int) -> float:
        """Return the seconds at a level; rings of other degrees cost as N log N."""
        n, degree = level + 1, parameters.ring_degree
        larger = degree * math.log2(degree) / (_REFERENCE_DEGREE * math.log2(_REFERENCE_DEGREE))
        return larger * (self.linear * n + self.quadratic * n * n)


@dataclass(frozen=True)
class Costs:
    """What a plan's seconds are made of: one thread of an AVX-512 server core, SEAL 4.1."""

    rotation: OperationCost = OperationCost(1.05e-3, 0.18e-3)
    ct_ct: OperationCost = OperationCost(1.4e-3, 0.22e-3)
    ct_pt: OperationCost = OperationCost(0.11e-3)
    encode: OperationCost = OperationCost(0.16e-3, 0.008e-3)
    encrypt: OperationCost = OperationCost(1.9e-3)
    decrypt: OperationCost = OperationCost(0.7e-3, 0.03e-3)
    round_seconds: float = 0.5
    """What a round between the sides is worth, beside its bytes and its work."""
    ciphertext_seconds: float = 0.5
    """What a refreshed ciphertext is worth, beside them."""
    bytes_per_second: float = 10e6

    def refresh_seconds(self, parameters: Parameters, level: int, fresh: int) -> float:
        """Return the work of blinding, refreshing and unblinding one ciphertext."""
        plain = self.encode.seconds(parameters, level) + self.encode.seconds(parameters, fresh)
        holder = self.decrypt.seconds(parameters, level) + self.encrypt.seconds(parameters, fresh)
        return plain + holder


def ciphertext_file_bytes(parameters: Parameters, level: int, *, seeded: bool = False) -> int:
    """Return about what a ciphertext takes on its way: half of it where it came from a seed."""
    residues = sum(
        min(_WORD, bits / 8 + _COMPRESSED_EXTRA) for bits in parameters.prime_bits[: level + 1]
    )
    polynomials = 1 if seeded else 2
    return round(polynomials * parameters.ring_degree * residues) + _SEED_BYTES
