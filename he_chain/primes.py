"""The primes of a chain, from their sizes alone: the ones that SEAL chooses.

A prime has to be 1 modulo 2 N, so that the ring has its number theoretic transform. SEAL goes
through such numbers of a size from the largest down, and gives the smallest of those it needs to
the first place that wants the size (CoeffModulus::Create, SEAL 4.1). Scales depend on the primes,
so whoever plans or imitates a chain needs the same ones without the library.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Final

from he_chain.errors import PlanError
from he_chain.parameters import Parameters

_WITNESSES: Final = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
"""Enough for every number below 2^64 (Sorenson and Webster, Math. Comp. 86, 2017)."""
_LEAST_BITS: Final = 2
_MOST_BITS: Final = 60


@cache
def chain_primes(parameters: Parameters) -> tuple[int, ...]:
    """Return the primes in the order of `Parameters.prime_bits`, the special one last.

    Raises:
        PlanError: a size has fewer primes than are wanted, or none can have it.
    """
    two_n = 2 * parameters.ring_degree
    found = {
        bits: _largest(bits, two_n, count) for bits, count in Counter(parameters.prime_bits).items()
    }
    return tuple(found[bits].pop() for bits in parameters.prime_bits)


def _largest(bits: int, step: int, count: int) -> list[int]:
    """Return the `count` largest primes of `bits` bits that are 1 modulo `step`, descending."""
    if not _LEAST_BITS <= bits <= _MOST_BITS:
        raise PlanError(f"a prime has {_LEAST_BITS}..{_MOST_BITS} bits, not {bits}")
    primes: list[int] = []
    candidate = ((1 << bits) - 1) // step * step + 1
    while len(primes) < count:
        if candidate.bit_length() < bits:
            message = f"there are not {count} primes of {bits} bits that are 1 modulo {step}"
            raise PlanError(message)
        if candidate.bit_length() == bits and is_prime(candidate):
            primes.append(candidate)
        candidate -= step
    return primes


def is_prime(number: int) -> bool:
    """Return whether a number below 2^64 is prime (Miller and Rabin, with fixed witnesses)."""
    if number < 2:
        return False
    for prime in _WITNESSES:
        if number % prime == 0:
            return number == prime
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for witness in _WITNESSES:
        power = pow(witness, odd, number)
        if power in (1, number - 1):
            continue
        for _ in range(twos - 1):
            power = power * power % number
            if power == number - 1:
                break
        else:
            return False
    return True
