from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from engine.errors import NonFiniteError
from engine.reference.linear import linear
from engine.reference.quantise import quantise
from engine.vqf.panels import integer_groups, pack, unpack, values
from tests.engine.reference import scalar
from tests.engine.reference.support import INTEGER_KINDS, SplitMix64, random_fields, same_bits

FLOAT_KINDS = ("F32", "F16", "BF16")
EPSILON = 2.0**-24
TINY = 2.0**-101


def rows(seed, columns):
    """Activations with everything that N3 names: extremes, zeros, tiny blocks, -0.0, subnormals."""
    source = SplitMix64(seed)
    x = source.wide_floats((8, columns), -4, 4)
    x[1] = np.where(np.arange(columns) % 3 == 0, 1, -1)  # every xq is 127 or -127
    x[2] = 0
    x[3] = -0.0
    x[4, :32] = TINY
    x[5] = source.wide_floats((columns,), -126, -101)
    x[6] = 2.0**-140
    x[7, :32] = source.wide_floats((32,), 100, 108)
    return x


def matrix(kind, rows_out, seed=0):
    columns = 512 if kind.endswith("_K") else 96
    fields = random_fields(kind, rows_out, columns, seed)
    data = pack(kind, fields, rows_out, columns)
    return unpack(kind, data, rows_out, columns), columns


@pytest.mark.parametrize("kind", INTEGER_KINDS)
@pytest.mark.parametrize("num_outputs", [2, 16, 17, 35])
def test_integer_kinds_equal_the_scalar_program(kind, num_outputs):
    fields, columns = matrix(kind, num_outputs)
    groups = integer_groups(kind, fields)
    x = rows(1, columns)
    found = linear(x, groups)
    for t, row in enumerate(x.tolist()):
        for n in range(0, num_outputs, 1 if num_outputs < 16 else 5):
            expected = scalar.linear_integer(
                row,
                groups.q[n].tolist(),
                groups.s[n].tolist(),
                None if groups.m is None else groups.m[n].tolist(),
                groups.group,
            )
            assert scalar.to_bits(expected) == scalar.to_bits(float(found[t, n])), (t, n)


@pytest.mark.parametrize("kind", INTEGER_KINDS)
def test_integer_kinds_are_close_to_the_exact_sum(kind):
    fields, columns = matrix(kind, 20, 3)
    groups = integer_groups(kind, fields)
    x = rows(2, columns)[:2]
    activations = quantise(x)
    found = linear(x, groups)
    num_groups = columns // groups.group
    for t in range(2):
        for n in range(20):
            total = magnitude = Fraction(0)
            for g in range(num_groups):
                span = slice(g * groups.group, (g + 1) * groups.group)
                a = Fraction(float(activations.a[t, g * groups.group // 32]))
                xq = [int(value) for value in activations.xq[t, span]]
                q = [int(value) for value in groups.q[n, span]]
                term = (
                    sum(w * v for w, v in zip(q, xq, strict=True))
                    * Fraction(float(groups.s[n, g]))
                    * a
                )
                total += term
                magnitude += abs(term)
                if groups.m is not None:
                    term = sum(xq) * Fraction(float(groups.m[n, g])) * a
                    total += term
                    magnitude += abs(term)
            # Each term is rounded twice and each partial sum once.
            bound = float(magnitude) * (2 * num_groups + 3) * EPSILON
            assert abs(float(found[t, n]) - float(total)) <= bound


@pytest.mark.parametrize("kind", INTEGER_KINDS)
def test_integer_kinds_are_close_to_the_float_layer(kind):
    """Half a step for each activation, and the rounding of the weights' own values."""
    fields, columns = matrix(kind, 20, 4)
    x = rows(3, columns)[:2]
    w = values(kind, fields).astype(np.float64)
    exact = x.astype(np.float64) @ w.T
    steps = np.repeat(quantise(x).a, 32, axis=1).astype(np.float64)
    bound = (0.5001 * steps) @ np.abs(w).T + 1e-5 * (np.abs(x) @ np.abs(w).T)
    assert (np.abs(linear(x, integer_groups(kind, fields)) - exact) <= bound).all()


@pytest.mark.parametrize("kind", FLOAT_KINDS)
@pytest.mark.parametrize("num_outputs", [1, 17])
@pytest.mark.parametrize("columns", [1, 37, 96])
def test_float_kinds_equal_the_scalar_program(kind, num_outputs, columns):
    fields = random_fields(kind, num_outputs, columns, 5)
    w = values(kind, unpack(kind, pack(kind, fields, num_outputs, columns), num_outputs, columns))
    x = SplitMix64(4).wide_floats((3, columns), -20, 20)
    found = linear(x, w)
    expected = [[scalar.linear_float(row, weights) for weights in w.tolist()] for row in x.tolist()]
    assert same_bits(found, np.array(expected, dtype=np.float32))


@pytest.mark.parametrize("kind", INTEGER_KINDS)
def test_the_integer_sums_reach_their_extremes(kind):
    """Largest codes against activations of one sign, and the most negative ones."""
    fields, columns = matrix(kind, 16)
    groups = integer_groups(kind, fields)
    found = linear(np.ones((1, columns), dtype=np.float32), groups)[0]
    for n in (0, 1):
        assert len(set(groups.q[n].tolist())) == 1
        expected = scalar.linear_integer(
            [1.0] * columns,
            groups.q[n].tolist(),
            groups.s[n].tolist(),
            None if groups.m is None else groups.m[n].tolist(),
            groups.group,
        )
        assert scalar.to_bits(expected) == scalar.to_bits(float(found[n]))
    if kind == "Q8_0":
        assert groups.q[0, 0] == -128


@pytest.mark.parametrize("kind", INTEGER_KINDS)
def test_zero_rows_give_positive_zero(kind):
    fields, columns = matrix(kind, 17)
    for value in (0.0, -0.0, TINY / 2, 2.0**-149):
        x = np.full((1, columns), value, dtype=np.float32)
        found = linear(x, integer_groups(kind, fields))
        assert same_bits(found, np.zeros((1, 17), dtype=np.float32))


@pytest.mark.parametrize("kind", [*INTEGER_KINDS, *FLOAT_KINDS])
def test_bias_is_added_last(kind):
    fields, columns = matrix(kind, 18)
    read = values(kind, fields) if kind in FLOAT_KINDS else integer_groups(kind, fields)
    x = rows(6, columns)[:2]
    bias = SplitMix64(7).floats((18,), 4)
    assert same_bits(linear(x, read, bias), linear(x, read) + bias)


@pytest.mark.parametrize("kind", [*INTEGER_KINDS, "F32"])
def test_rows_and_outputs_do_not_depend_on_their_neighbours(kind):
    fields, columns = matrix(kind, 35)
    x = rows(8, columns)
    whole = linear(x, _read(kind, fields))
    some = linear(x[3:6], _read(kind, {name: field[20:21] for name, field in fields.items()}))
    assert same_bits(some, np.ascontiguousarray(whole[3:6, 20:21]))


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_an_activation_that_is_not_finite_ends_the_request(value):
    fields, columns = matrix("Q4_0", 16)
    x = np.ones((2, columns), dtype=np.float32)
    x[1, 40] = value
    with pytest.raises(NonFiniteError):
        linear(x, integer_groups("Q4_0", fields))


def _read(kind, fields):
    return values(kind, fields) if kind in FLOAT_KINDS else integer_groups(kind, fields)
