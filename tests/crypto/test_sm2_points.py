from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crypto.sm2_curve import A, B, G, N, P, Point, decode_point, is_on_curve
from crypto.sm2_points import add_multiples, multiply, multiply_generator

EDGES = [0, 1, 2, 3, 15, 16, 17, 63, 64, 65, N - 2, N - 1, N, N + 1, 2**255, 2**256 - 1]
numbers = st.one_of(st.sampled_from(EDGES), st.integers(0, 2**256))


def slow_sum(p, q):
    """Add two points as the standard writes it (GB/T 32918.1, 3.2.3.1); None is infinity."""
    if p is None:
        return q
    if q is None:
        return p
    if p.x == q.x:
        if (p.y + q.y) % P == 0:
            return None
        slope = (3 * p.x * p.x + A) * pow(2 * p.y, -1, P)
    else:
        slope = (q.y - p.y) * pow(q.x - p.x, -1, P)
    x = (slope * slope - p.x - q.x) % P
    return Point(x, (slope * (p.x - x) - p.y) % P)


def slow_multiple(k, point):
    total = None
    for bit in bin(k)[2:]:
        total = slow_sum(total, total)
        if bit == "1":
            total = slow_sum(total, point)
    return total


@pytest.mark.parametrize("k", EDGES)
def test_multiples_at_the_edges(k):
    expected = slow_multiple(k, G)
    assert multiply_generator(k) == expected
    assert multiply(k, G) == expected


@settings(max_examples=15)
@given(s=numbers, t=numbers, u=st.integers(1, N - 1))
def test_equals_the_slow_sum(s, t, u):
    point = slow_multiple(u, G)
    assert multiply_generator(u) == point
    assert multiply(t, point) == slow_multiple(t, point)
    expected = slow_sum(slow_multiple(s, G), slow_multiple(t, point))
    assert add_multiples(s, t, point) == expected


@pytest.mark.parametrize(
    ("s", "t", "u"), [(1, 1, 1), (5, N - 1, 5), (7, 1, N - 7), (3, 1, 3), (0, 0, 4), (N, N, 9)]
)
def test_equal_opposite_and_no_points(s, t, u):
    expected = slow_multiple((s + t * u) % N, G)
    assert add_multiples(s, t, slow_multiple(u, G)) == expected


def test_a_negative_multiple_is_refused():
    with pytest.raises(ValueError, match="not negative"):
        multiply_generator(-1)


def test_the_parameters_belong_together():
    assert is_on_curve(*G)
    assert pow(A, P - 1, P) == 1
    assert (4 * A**3 + 27 * B**2) % P != 0
    assert multiply_generator(N - 1) == Point(G.x, P - G.y)
    assert multiply_generator(N) is None


def test_points_off_the_curve_are_refused():
    assert decode_point(G.encode()) == G
    beside = Point(G.x, G.y ^ 1).encode()
    bad = [
        b"",
        b"\x00",
        beside,
        b"\x00" + G.encode()[1:],
        b"\x06" + G.encode()[1:],
        G.encode()[:-1],
        G.encode() + b"\x00",
        b"\x02" + G.encode()[1:33],
        b"\x04" + bytes(64),
        b"\x04" + P.to_bytes(32, "big") + G.encode()[33:],
        b"\x04" + b"\xff" * 64,
    ]
    assert [data for data in bad if decode_point(data) is not None] == []


def test_coordinates_beyond_the_field_are_refused():
    # x + p and y + p satisfy the equation modulo p and are not field elements.
    small = next(x for x in range(1, 100) if pow(x**3 + A * x + B, (P - 1) // 2, P) == 1)
    y = pow(small**3 + A * small + B, (P + 1) // 4, P)
    assert is_on_curve(small, y)
    assert not is_on_curve(small + P, y)
    assert not is_on_curve(small, y + P)
    assert not is_on_curve(small - P, y)
    assert small + P < 2**256
    assert decode_point(b"\x04" + (small + P).to_bytes(32, "big") + y.to_bytes(32, "big")) is None
