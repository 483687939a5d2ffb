"""Predicted bytes of keys and ciphertexts, against the library's and the files'."""

from __future__ import annotations

import numpy as np
import pytest

from he_chain.backends.key_folder import GALOIS, RELIN
from he_chain.backends.seal import SealEvaluator, SealHolder
from he_chain.parameters import Parameters
from he_chain.planning.sizes import (
    ciphertext_bytes,
    evaluation_keys_bytes,
    key_switch_bytes,
    key_switch_file_bytes,
    max_ciphertext_file_bytes,
    max_key_switch_file_bytes,
    max_public_key_file_bytes,
    max_secret_key_file_bytes,
)


def polynomials(raw) -> int:
    return raw.size() * raw.coeff_modulus_size() * raw.poly_modulus_degree() * 8


@pytest.mark.parametrize(
    "parameters",
    [
        Parameters(4096, 1, scale_bits=30, first_bits=40, special_bits=39),
        Parameters(8192, 2),
        Parameters(8192, 3, scale_bits=33, first_bits=55, special_bits=60),
        Parameters(16384, 3, scale_bits=45, first_bits=50, special_bits=50),
    ],
    ids=str,
)
def test_keys_are_as_large_as_predicted(tmp_path, parameters) -> None:
    holder = SealHolder.create(parameters)
    written = holder.write_evaluation_keys(tmp_path / "evaluator", [1, 7])
    holder.save(tmp_path / "holder")
    evaluator = SealEvaluator.open(tmp_path / "evaluator")

    files = [*(tmp_path / "evaluator" / GALOIS).iterdir(), tmp_path / "evaluator" / RELIN]
    sizes = [path.stat().st_size for path in files]
    assert len(sizes) == 3
    for size in sizes:
        assert size == pytest.approx(key_switch_file_bytes(parameters), rel=0.02)
        assert size < max_key_switch_file_bytes(parameters)
    assert (tmp_path / "holder/secret.key").stat().st_size < max_secret_key_file_bytes(parameters)
    public = (tmp_path / "evaluator/public.key").stat().st_size
    assert public < max_public_key_file_bytes(parameters)
    assert written > sum(sizes) + public

    # 16 N k (k - 1) bytes of a key in memory, by the library's own count
    k = len(parameters.prime_bits)
    assert key_switch_bytes(parameters) == 16 * parameters.ring_degree * k * (k - 1)
    total = polynomials(evaluator.keys.public.data())
    for key in [evaluator.keys.relin, *evaluator.keys.galois.values()]:
        parts = [polynomials(part.data()) for row in key.data() for part in row]
        assert sum(parts) == key_switch_bytes(parameters)
        total += sum(parts)
    assert total == evaluation_keys_bytes(parameters, 2)

    x = evaluator.load(holder.encrypt(np.zeros(parameters.num_slots)))
    for level in range(parameters.num_levels + 1):
        lower = evaluator.to_level(x, level)
        assert polynomials(lower.raw) == ciphertext_bytes(parameters, level)
    assert len(evaluator.dump(x)) < max_ciphertext_file_bytes(parameters)


def test_a_rotation_loads_from_its_file_alone(tmp_path) -> None:
    """No file grows with the number of rotations (TenSEAL's issue 452: 2 GB in one object)."""
    parameters = Parameters(32768, 19)
    total = evaluation_keys_bytes(parameters, 15)
    assert total > 2**31
    assert max_key_switch_file_bytes(parameters) < 2**28
