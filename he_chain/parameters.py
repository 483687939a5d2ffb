"""The parameters of a CKKS scheme, before any key."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Parameters:
    """Ring and chain of primes, by their sizes in bits.

    A ciphertext at level l has l + 1 primes: the first one and l of the scale's size. A product is
    brought back to the scale by a rescale, which takes one level. Security is not checked here
    (security.py).
    """

    ring_degree: int
    """N, a power of two."""
    num_levels: int
    """Level of a fresh ciphertext: so many rescales it bears."""
    scale_bits: int = 40
    first_bits: int = 60
    """Size of the prime that stays at level 0: it bounds what can be decrypted."""
    special_bits: int = 60
    """Size of the prime that only keys have."""

    @property
    def num_slots(self) -> int:
        """Values in a ciphertext."""
        return self.ring_degree // 2

    @property
    def prime_bits(self) -> tuple[int, ...]:
        """Sizes of all primes, the special one last."""
        return (self.first_bits, *[self.scale_bits] * self.num_levels, self.special_bits)

    @property
    def total_bits(self) -> int:
        """log2 of the product of all primes, which security depends on."""
        return sum(self.prime_bits)
