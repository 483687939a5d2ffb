"""Which parameters may be called secure."""

from __future__ import annotations

import pytest

from he_chain.backends.seal_library import load_library
from he_chain.errors import SecurityError
from he_chain.parameters import Parameters
from he_chain.security import MAX_MODULUS_BITS, check


def of_bits(degree: int, bits: int) -> Parameters:
    """Return parameters whose primes have so many bits together."""
    rest = bits - 40
    return Parameters(
        degree, 1, scale_bits=20, first_bits=rest // 2 + 20, special_bits=rest - rest // 2
    )


@pytest.mark.parametrize(
    ("degree", "bits"), [(4096, 109), (8192, 218), (16384, 438), (32768, 881), (65536, 1772)]
)
def test_the_largest_modulus_at_128_bits(degree, bits) -> None:
    security = check(of_bits(degree, bits))
    assert (security.bits, security.margin_bits, security.claim) == (128, 0, "standard table")
    assert check(of_bits(degree, bits - 7)).margin_bits == 7
    with pytest.raises(SecurityError, match=f"above the {bits} that 128 bits"):
        check(of_bits(degree, bits + 1))


def test_the_table_is_that_of_seal() -> None:
    library = load_library()
    levels = library.SEC_LEVEL_TYPE
    for bits, level in {128: levels.TC128, 192: levels.TC192, 256: levels.TC256}.items():
        for degree, limit in MAX_MODULUS_BITS[bits].items():
            if degree <= 32768:
                assert library.CoeffModulus.MaxBitCount(degree, level) == limit


def test_more_security_allows_less() -> None:
    for degree in (1024, 2048, 4096, 8192, 16384, 32768):
        limits = [MAX_MODULUS_BITS[bits][degree] for bits in (128, 192, 256)]
        assert limits == sorted(limits, reverse=True)
        assert len(set(limits)) == 3
    parameters = Parameters(8192, 2)
    assert check(parameters, 128).margin_bits == 18
    for bits in (192, 256):
        with pytest.raises(SecurityError, match=f"that {bits} bits of security allow"):
            check(parameters, bits)


def test_sparse_secrets_are_only_claimed_by_a_library() -> None:
    assert check(Parameters(8192, 2), secret="sparse").claim == "library claim"
    with pytest.raises(SecurityError):
        check(Parameters(4096, 2), secret="sparse")


def test_sources_are_named() -> None:
    assert "2018" in check(Parameters(32768, 19)).source
    assert "2024" in check(Parameters(65536, 40)).source


@pytest.mark.parametrize(("degree", "bits"), [(512, 128), (131072, 128), (65536, 192), (8192, 100)])
def test_what_no_table_has_is_refused(degree, bits) -> None:
    with pytest.raises(SecurityError, match=r"has no entry|there are tables"):
        check(Parameters(degree, 0, scale_bits=10, first_bits=10, special_bits=10), bits)
