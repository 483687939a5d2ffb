"""How far CKKS is off, an operation at a time: standard deviations of slots, before the scale.

Errors are polynomials; a slot is one at a root of X^N + 1, so independent coefficients of
deviation s give slots (real parts) of deviation s * sqrt(N / 2). What SEAL does is followed:

- errors of keys and fresh ciphertexts have deviation 3.2;
- a division by a prime rounds both polynomials, and the second one meets the ternary secret;
- key switching multiplies the residues of each prime, as numbers of 0..q - 1, with errors and
  divides by the special prime. As the residues are not centred, their mean is a polynomial with
  all coefficients q / 2, which is large at the roots near 1: a key has an error of its own, the
  same at each use, in a few slots, most of all in slot 0.

tests/he_chain/backends/test_noise.py measures SEAL against every function here.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from he_chain.parameters import Parameters
from he_chain.primes import chain_primes

KEY_DEVIATION: Final = 3.2


def encode_noise(parameters: Parameters) -> float:
    """Return the deviation of rounding coefficients to whole numbers."""
    return _slots(parameters, math.sqrt(1 / 12))


def fresh_noise(parameters: Parameters) -> float:
    """Return that of an encryption with the secret key, its encoding included."""
    return math.hypot(_slots(parameters, KEY_DEVIATION), encode_noise(parameters))


def public_noise(parameters: Parameters) -> float:
    """Return that of an encryption with the public key, which ends in a division."""
    return math.hypot(fresh_noise(parameters), rescale_noise(parameters))


def rescale_noise(parameters: Parameters) -> float:
    """Return that of a division by a prime."""
    return _slots(parameters, math.sqrt((1 + parameters.ring_degree * 2 / 3) / 12))


def key_switch_noise(parameters: Parameters, level: int) -> float:
    """Return that of a rotation or relinearisation, without what its key always adds."""
    digits = KEY_DEVIATION * math.sqrt(parameters.ring_degree / 12) * _weight(parameters, level)
    return math.hypot(_slots(parameters, digits), rescale_noise(parameters))


def key_switch_bias(parameters: Parameters, level: int) -> NDArray[np.float64]:
    """Return the deviation, over keys, of what a key always adds: float64[num_slots]."""
    error = _slots(parameters, KEY_DEVIATION) * _weight(parameters, level)
    return error * _mean_at_roots(parameters.ring_degree)


def _slots(parameters: Parameters, coefficient: float) -> float:
    """Return the deviation of slots for one of coefficients."""
    return coefficient * math.sqrt(parameters.ring_degree / 2)


def _weight(parameters: Parameters, level: int) -> float:
    """Return the root of the sum of (q / P)^2 over a level's primes, P the special one."""
    primes = chain_primes(parameters)
    return math.hypot(*(prime / primes[-1] for prime in primes[: level + 1]))


@cache
def _mean_at_roots(ring_degree: int) -> NDArray[np.float64]:
    """Return |(1 + X + ... + X^(N-1)) / 2| at each slot's root, exp(i pi 3^slot / N)."""
    exponents = np.empty(ring_degree // 2)
    power = 1
    for slot in range(ring_degree // 2):
        exponents[slot] = power
        power = power * 3 % (2 * ring_degree)
    return np.asarray(1 / np.abs(1 - np.exp(1j * np.pi * exponents / ring_degree)))
