"""How large a modulus may be for a ring: the tables that security claims rest on.

Up to N = 32768: Albrecht et al., Homomorphic Encryption Standard (2018), table 1, secret uniform
in {-1, 0, 1}, the classical estimates; SEAL refuses by the same numbers at 128 bits. N = 65536 is
not in it: Bossuat et al., Security Guidelines for Implementing Homomorphic Encryption (IACR
Communications in Cryptology 1(4), 2024), for 128 bits only. Neither covers sparse secrets as
bootstrapping wants them; there the library's author claims something, and that is what is said.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from he_chain.errors import SecurityError
from he_chain.parameters import Parameters

SecretKind = Literal["ternary", "sparse"]
Claim = Literal["standard table", "library claim"]

MAX_MODULUS_BITS: Final[dict[int, dict[int, int]]] = {
    128: {1024: 27, 2048: 54, 4096: 109, 8192: 218, 16384: 438, 32768: 881, 65536: 1772},
    192: {1024: 19, 2048: 37, 4096: 75, 8192: 152, 16384: 305, 32768: 611},
    256: {1024: 14, 2048: 29, 4096: 58, 8192: 118, 16384: 237, 32768: 476},
}
"""Security in bits -> ring degree -> most bits of all primes together, the special one included."""
_GUIDELINES_FROM: Final = 65536


@dataclass(frozen=True)
class Security:
    """What may be said about parameters."""

    bits: int
    """The security that was asked for and is met, by the claim."""
    margin_bits: int
    """How many bits the modulus could grow."""
    claim: Claim
    """Whether a published table covers the kind of secret."""
    source: str
    """Which table."""


def check(
    parameters: Parameters,
    security_bits: int = 128,
    secret: SecretKind = "ternary",  # noqa: S107 - the distribution of one, not a secret
) -> Security:
    """Return the claim for parameters that a table allows.

    For sparse secrets the table's bound is necessary and not sufficient, so the claim is weaker.

    Raises:
        SecurityError: the modulus is too large, or there is no entry for the ring or the security.
    """
    table = MAX_MODULUS_BITS.get(security_bits)
    if table is None:
        known = ", ".join(map(str, MAX_MODULUS_BITS))
        raise SecurityError(f"{security_bits} bits of security: there are tables for {known}")
    degree = parameters.ring_degree
    if degree not in table:
        raise SecurityError(f"N = {degree} has no entry for {security_bits} bits of security")
    margin = table[degree] - parameters.total_bits
    if margin < 0:
        message = (
            f"N = {degree}: a modulus of {parameters.total_bits} bits is above the "
            f"{table[degree]} that {security_bits} bits of security allow"
        )
        raise SecurityError(message)
    later = degree >= _GUIDELINES_FROM
    source = "Bossuat et al. 2024" if later else "Homomorphic Encryption Standard 2018"
    claim: Claim = "library claim" if secret == "sparse" else "standard table"  # noqa: S105
    return Security(bits=security_bits, margin_bits=margin, claim=claim, source=source)
