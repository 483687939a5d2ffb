from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest

from engine.reference.rope import MAX_POSITION, cos_sin, rope_table, rotate
from tests.engine.reference import scalar
from tests.engine.reference.support import SplitMix64, inv_freq_bits, same_bits

BOUND = Decimal("2e-13")


def pi():
    """Machin's formula."""

    def arctan_of_inverse(n):
        term = total = Decimal(1) / n
        k = 1
        while abs(term) > Decimal(10) ** -58:
            term = -term / (n * n)
            k += 2
            total += term / k
        return total

    return 4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239))


def taylor_cos_sin(z, two_pi):
    """Cosine and sine by their Taylor series, after an exact reduction."""
    z = z - (z / two_pi).to_integral_value() * two_pi
    square = z * z
    results = []
    for k, term in ((1, Decimal(1)), (2, z)):
        total, n = term, k
        while abs(term) > Decimal(10) ** -40:
            term = -term * square / (n * (n + 1))  # noqa: PLW2901 - the series' own recurrence
            n += 2
            total += term
        results.append(total)
    return results


def test_cos_and_sin_are_within_their_bound():
    source = SplitMix64(70)
    frequencies = np.array(inv_freq_bits(10000.0, 32), dtype=np.uint64).view(np.float64)
    positions = source.integers(0, MAX_POSITION, (150,)).astype(np.float64)
    halves = np.arange(0, 1300000, 9973) * (np.pi / 4)  # where the reduction changes quadrant
    z = np.concatenate(((positions[:, np.newaxis] * frequencies).ravel(), halves, [0, 1e-300]))
    worst = Decimal(0)
    with localcontext() as context:
        context.prec = 60
        two_pi = 2 * pi()
        for angle, *found in zip(z.tolist(), *(part.tolist() for part in cos_sin(z)), strict=True):
            for exact, ours in zip(taylor_cos_sin(Decimal(angle), two_pi), found, strict=True):
                worst = max(worst, abs(Decimal(ours) - exact))
    print(f"cos, sin: largest error {worst:.3e}")
    assert Decimal("1e-14") < worst < BOUND


def test_a_table_is_cos_and_sin_of_position_times_frequency_rounded_once():
    bits = inv_freq_bits(1e6, 16)
    positions = np.array([0, 1, 63, 64, 4095, 262143, MAX_POSITION - 1])
    frequencies = np.array(bits, dtype=np.uint64).view(np.float64)
    cos_z, sin_z = cos_sin(positions[:, np.newaxis] * frequencies)
    table = rope_table(positions, bits)
    assert same_bits(table.c, cos_z.astype(np.float32))
    assert same_bits(table.s, sin_z.astype(np.float32))


def test_every_quadrant_occurs_and_has_the_right_signs():
    bits = inv_freq_bits(10000.0, 2)  # frequency 1
    assert bits == (0x3FF0000000000000,)
    table = rope_table(np.arange(8), bits)
    np.testing.assert_allclose(table.c[:, 0], np.cos(np.arange(8)), atol=1e-7)
    np.testing.assert_allclose(table.s[:, 0], np.sin(np.arange(8)), atol=1e-7)


def test_position_zero_is_the_identity():
    table = rope_table(np.array([0]), inv_freq_bits(10000.0, 16))
    v = SplitMix64(71).floats((1, 3, 16))
    assert (table.c == 1).all()
    assert same_bits(table.s, np.zeros_like(table.s))
    assert np.array_equal(rotate(v, table), v)


def test_rotation_equals_the_scalar_program_and_leaves_the_rest():
    v = SplitMix64(72).floats((3, 2, 24))
    table = rope_table(np.array([5, 4000, MAX_POSITION - 1]), inv_freq_bits(10000.0, 16))
    found = rotate(v, table)
    for t in range(3):
        for head in range(2):
            expected = scalar.rotate(v[t, head].tolist(), table.c[t].tolist(), table.s[t].tolist())
            assert same_bits(found[t, head], np.array(expected, dtype=np.float32))
    assert same_bits(found[:, :, 16:], v[:, :, 16:])


def test_a_row_does_not_depend_on_its_neighbours():
    bits = inv_freq_bits(1e6, 64)
    positions = np.array([7, 0, 99999])
    together = rope_table(positions, bits)
    for row, position in enumerate(positions):
        alone = rope_table(np.array([position]), bits)
        assert same_bits(alone.c[0], together.c[row])
        assert same_bits(alone.s[0], together.s[row])


@pytest.mark.parametrize("position", [-1, MAX_POSITION])
def test_a_position_outside_its_range_is_refused(position):
    with pytest.raises(ValueError, match="positions"):
        rope_table(np.array([0, position]), inv_freq_bits(10000.0, 16))
