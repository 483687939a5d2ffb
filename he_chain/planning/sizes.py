"""How many bytes ciphertexts and keys take, before any is made.

In memory a residue is a word of 8 bytes; a file holds SEAL's objects compressed by Zstandard, where
a key's uniform polynomials are left out and their seed is written instead.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from he_chain.parameters import Parameters

_WORD: Final = 8
_SLACK: Final = 8192
"""Heads, and what compression may add to what it cannot compress."""
_RESIDUE_BITS: Final = (20, 25, 30, 35, 40, 45, 50, 55, 60)
_RESIDUE_BYTES: Final = (3.30, 3.93, 4.51, 5.31, 6.07, 6.75, 7.22, 7.60, 8.09)
"""Compressed bytes of a uniform residue of so many bits (SEAL 4.1 with Zstandard, measured)."""


def ciphertext_bytes(parameters: Parameters, level: int) -> int:
    """Return the bytes of a ciphertext in memory: two polynomials of level + 1 residues."""
    return 2 * parameters.ring_degree * (level + 1) * _WORD


def max_ciphertext_file_bytes(parameters: Parameters) -> int:
    """Return what no file of a ciphertext exceeds."""
    return _with_slack(ciphertext_bytes(parameters, parameters.num_levels))


def key_switch_bytes(parameters: Parameters) -> int:
    """Return the bytes of a rotation's key, or the relinearisation key, in memory.

    For each of the k - 1 primes that are not special, two polynomials over all k primes.
    """
    k = len(parameters.prime_bits)
    return 2 * parameters.ring_degree * k * (k - 1) * _WORD


def key_switch_file_bytes(parameters: Parameters) -> int:
    """Return the bytes of such a key in a file, within two per cent: every other polynomial."""
    residue = np.interp(parameters.prime_bits, _RESIDUE_BITS, _RESIDUE_BYTES).sum()
    return round(parameters.ring_degree * (len(parameters.prime_bits) - 1) * float(residue))


def max_key_switch_file_bytes(parameters: Parameters) -> int:
    """Return what no file of such a key exceeds."""
    return _with_slack(key_switch_bytes(parameters))


def max_public_key_file_bytes(parameters: Parameters) -> int:
    """Return what no file of a public key exceeds: two polynomials over all primes."""
    return _with_slack(2 * parameters.ring_degree * len(parameters.prime_bits) * _WORD)


def max_secret_key_file_bytes(parameters: Parameters) -> int:
    """Return what no file of a secret key exceeds: one polynomial over all primes."""
    return _with_slack(parameters.ring_degree * len(parameters.prime_bits) * _WORD)


def evaluation_keys_bytes(parameters: Parameters, num_rotations: int) -> int:
    """Return the memory of an evaluator's keys: relinearisation, rotations and the public key."""
    public = 2 * parameters.ring_degree * len(parameters.prime_bits) * _WORD
    return (num_rotations + 1) * key_switch_bytes(parameters) + public


def _with_slack(num_bytes: int) -> int:
    return num_bytes + num_bytes // 128 + _SLACK
