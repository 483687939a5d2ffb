"""The primes of a chain."""

from __future__ import annotations

import pytest

from he_chain.backends.seal_library import load_library
from he_chain.errors import PlanError
from he_chain.parameters import Parameters
from he_chain.primes import chain_primes, is_prime


@pytest.mark.parametrize(
    "parameters",
    [
        Parameters(1024, 0, first_bits=14, special_bits=15),
        Parameters(4096, 1, scale_bits=30, first_bits=40, special_bits=39),
        Parameters(8192, 2),
        Parameters(8192, 3, scale_bits=40, first_bits=40, special_bits=40),
        Parameters(16384, 7),
        Parameters(16384, 9, scale_bits=36, first_bits=50, special_bits=60),
        Parameters(32768, 30, scale_bits=26, first_bits=40, special_bits=60),
    ],
    ids=str,
)
def test_they_are_those_that_seal_chooses(parameters) -> None:
    modulus = load_library().CoeffModulus
    chosen = modulus.Create(parameters.ring_degree, list(parameters.prime_bits))
    assert chain_primes(parameters) == tuple(prime.value() for prime in chosen)


def test_they_have_their_sizes_and_a_transform() -> None:
    parameters = Parameters(16384, 7)
    primes = chain_primes(parameters)
    assert tuple(prime.bit_length() for prime in primes) == parameters.prime_bits
    assert len(set(primes)) == len(primes)
    assert all(prime % 32768 == 1 and is_prime(prime) for prime in primes)


def test_more_than_there_are_is_refused() -> None:
    with pytest.raises(PlanError, match="there are not 40 primes of 18 bits"):
        chain_primes(Parameters(8192, 40, scale_bits=18))
    for bits in (1, 61):
        with pytest.raises(PlanError, match=r"2\.\.60 bits"):
            chain_primes(Parameters(8192, 1, scale_bits=bits))


def test_primes_are_told_from_others() -> None:
    sieve = [n for n in range(2000) if n > 1 and all(n % d for d in range(2, int(n**0.5) + 1))]
    assert [n for n in range(2000) if is_prime(n)] == sieve
    # strong pseudoprimes to many bases, and the largest prime below 2^64
    for composite in (3215031751, 3825123056546413051, 341550071728321):
        assert not is_prime(composite)
    assert is_prime(2**64 - 59)
