"""The baseline, and what it must refuse because TenSEAL does not."""

from __future__ import annotations

import numpy as np
import pytest

from he_chain.backends.tenseal_vec import VectorBaseline
from he_chain.errors import BackendError, RangeError, SecurityError
from he_chain.parameters import Parameters
from he_chain.primes import chain_primes
from tests.he_chain.backends.conftest import ONE_LEVEL


@pytest.fixture(scope="module")
def baseline() -> VectorBaseline:
    return VectorBaseline(ONE_LEVEL)


def test_it_multiplies(baseline) -> None:
    rng = np.random.default_rng(5)
    for inputs, outputs in ((1, 1), (3, 7), (16, 4)):
        matrix, values = rng.standard_normal((inputs, outputs)), rng.standard_normal(inputs)
        found = baseline.decrypt(baseline.matmul(baseline.encrypt(values), matrix))
        assert np.allclose(found, values @ matrix, atol=1e-3)


def test_it_has_the_primes_of_the_others(baseline) -> None:
    # TenSEAL keeps its special prime in the same place
    parts = baseline._context.seal_context().data.key_context_data().parms().coeff_modulus()
    assert tuple(prime.value() for prime in parts) == chain_primes(ONE_LEVEL)
    assert baseline.primes == chain_primes(ONE_LEVEL)[:-1]


def test_what_tenseal_gets_wrong_without_a_word_is_refused(baseline) -> None:
    """TenSEAL's issue 504: more inputs and outputs together than slots + 1."""
    values = np.array([1.5, -0.75])
    x = baseline.encrypt(values)
    with pytest.raises(RangeError, match="for which TenSEAL is right"):
        baseline.matmul(x, np.ones((2, 2048)))
    largest = np.random.default_rng(6).standard_normal((2, 2047))
    found = baseline.decrypt(baseline.matmul(x, largest))
    assert np.allclose(found, values @ largest, atol=1e-2)


def test_the_issue_is_still_there(baseline) -> None:
    """If this fails, TenSEAL has been mended, and the refusal may go."""
    rng = np.random.default_rng(6)
    matrix, values = rng.standard_normal((40, 2040)), rng.standard_normal(40)
    result = baseline.encrypt(values).matmul(matrix.tolist())
    assert np.max(np.abs(baseline.decrypt(result) - values @ matrix)) > 1


def test_other_shapes_are_refused(baseline) -> None:
    x = baseline.encrypt(np.ones(3))
    with pytest.raises(RangeError, match="3 values"):
        baseline.matmul(x, np.ones((4, 4)))
    for count in (0, 2049):
        with pytest.raises(RangeError, match="slots"):
            baseline.encrypt(np.ones(count))


def test_no_level_left_is_a_typed_error(baseline) -> None:
    x = baseline.matmul(baseline.encrypt(np.ones(2)), np.ones((2, 2)))
    with pytest.raises(BackendError, match="matmul"):
        baseline.matmul(x, np.ones((2, 2)))


def test_parameters_below_128_bits_are_refused() -> None:
    with pytest.raises(SecurityError):
        VectorBaseline(Parameters(4096, 2))
