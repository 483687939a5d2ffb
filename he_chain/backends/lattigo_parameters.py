"""Parameters of CKKS with bootstrapping, and how much modulus they really use."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from he_chain.parameters import Parameters

SECRET_FILE: Final = "secret.key"  # noqa: S105 - the name of a file
SWITCHING_FILE: Final = "switching.key"
BOOT_FILE: Final = "bootstrap.key"
"""The holder's file, and the two of the evaluator."""

CIRCUIT_BITS: Final = (56,) * 4 + (60,) * 8 + (39,) * 3
"""Primes that a bootstrap uses up on its way, as Lattigo 6.2.0 has it: coefficients to slots, the
modular reduction (a polynomial of degree 30, three double angles), slots to coefficients."""
EPHEMERAL_WEIGHT: Final = 32
"""Weight of the secret under which a ciphertext of one prime is while its modulus is raised."""
FIRST_BITS: Final = 60
SPECIAL_BITS: Final = 61
BOOT_SPECIAL_BITS: Final = 53


@dataclass(frozen=True)
class BootParameters:
    """Ring, levels behind a bootstrap, and the special primes of both kinds of keys."""

    log_degree: int
    """log2 of N."""
    num_levels: int
    """Level behind a bootstrap, and of a fresh ciphertext at most."""
    scale_bits: int = 45
    num_special: int = 5
    """Special primes of the keys for rotations and products between bootstraps."""
    num_boot_special: int = 9
    """Special primes of the keys inside a bootstrap, as many as a digit has primes: with nine, 25
    primes make three digits, none of which is larger than all nine together."""
    dense_secret: bool = True
    """Whether the secret has as many coefficients that are not 0 as that are (weight N / 2, about
    as a uniform ternary one); otherwise its weight is 192, or 64 in rings that are toys anyway."""
    log_slots: int = 8
    """A bootstrap refreshes vectors that repeat with period 2^log_slots."""

    @property
    def ring_degree(self) -> int:
        """N."""
        return 1 << self.log_degree

    @property
    def num_slots(self) -> int:
        """Values in a ciphertext."""
        return self.ring_degree // 2

    @property
    def secret_weight(self) -> int:
        """How many coefficients of the secret are 1 or -1."""
        if self.dense_secret:
            return self.ring_degree // 2
        return 192 if self.log_degree >= 15 else 64

    @property
    def modulus_bits(self) -> tuple[int, ...]:
        """Sizes of the primes of a ciphertext between bootstraps."""
        return (FIRST_BITS, *[self.scale_bits] * self.num_levels)

    @property
    def special_bits(self) -> tuple[int, ...]:
        """Sizes of the special primes of the keys between bootstraps."""
        return (SPECIAL_BITS,) * self.num_special

    @property
    def boot_special_bits(self) -> tuple[int, ...]:
        """Sizes of the special primes of the keys inside a bootstrap."""
        return (BOOT_SPECIAL_BITS,) * self.num_boot_special

    @property
    def total_bits(self) -> int:
        """log2 of the largest modulus under which a key is published: inside a bootstrap."""
        return sum(self.modulus_bits) + sum(CIRCUIT_BITS) + sum(self.boot_special_bits)

    @property
    def ephemeral_bits(self) -> int:
        """log2 of the modulus of the keys that hide the sparse ephemeral secret: one prime each."""
        return FIRST_BITS + BOOT_SPECIAL_BITS

    @property
    def boot_key_bytes(self) -> int:
        """About the size of one rotation key inside a bootstrap, of which there are some thirty."""
        primes = len(self.modulus_bits) + len(CIRCUIT_BITS)
        digits = math.ceil(primes / self.num_boot_special)
        return 2 * digits * (primes + self.num_boot_special) * self.ring_degree * 8

    @property
    def key_bytes(self) -> int:
        """Size of one rotation key between bootstraps."""
        primes = len(self.modulus_bits)
        digits = math.ceil(primes / self.num_special)
        return 2 * digits * (primes + self.num_special) * self.ring_degree * 8

    @property
    def as_chain(self) -> Parameters:
        """The chain as records and security.py's table know it: what only keys have is one number.

        These are the special primes and those that a bootstrap uses up.
        """
        only_keys = self.total_bits - sum(self.modulus_bits)
        return Parameters(self.ring_degree, self.num_levels, self.scale_bits, FIRST_BITS, only_keys)

    def to_json(self) -> dict[str, object]:
        """Return them as the library names them."""
        return {
            "logn": self.log_degree,
            "logq": list(self.modulus_bits),
            "logp": list(self.special_bits),
            "log_default_scale": self.scale_bits,
            "h": self.secret_weight,
            "ring_type": "standard",
            "boot_logp": list(self.boot_special_bits),
            "btp_logn": self.log_degree,
        }
