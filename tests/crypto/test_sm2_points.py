from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crypto import sm2_points
from crypto.errors import InvalidSignatureError
from crypto.sm2_curve import A, B, G, N, P, Point, decode_point, is_on_curve
from crypto.sm2_keys import PublicKey
from crypto.sm2_points import add_multiples, multiply, multiply_generator
from crypto.sm2_verify import verify_digest

ROOT = Path(__file__).parents[2]
MINUS_G = Point(G.x, P - G.y)

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


def point_from(x):
    """Return the first point of the curve whose x is at least this; p is 3 modulo 4."""
    while pow(x**3 + A * x + B, (P - 1) // 2, P) != 1:
        x += 1
    return Point(x, pow(x**3 + A * x + B, (P + 1) // 4, P))


@pytest.mark.parametrize("k", EDGES)
def test_multiples_at_the_edges(k):
    expected = slow_multiple(k, G)
    assert multiply_generator(k) == expected
    assert multiply(k, G) == expected


@settings(max_examples=15, deadline=None)
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


@pytest.mark.parametrize("k", EDGES)
@pytest.mark.parametrize("point", [G, MINUS_G])
def test_sums_with_the_base_point_and_its_opposite(k, point):
    u = 1 if point == G else N - 1
    for s, t in ((k, 1), (1, k), (k, k), (k, (N - k) % N), (k, 2 * N - k % N)):
        assert add_multiples(s, t, point) == slow_multiple((s + t * u) % N, G)


@settings(max_examples=15, deadline=None)
@given(s=st.integers(1, N - 1), t=st.integers(1, N - 1))
def test_sums_that_are_infinity(s, t):
    point = slow_multiple((N - s) * pow(t, -1, N) % N, G)
    assert add_multiples(s, t, point) is None
    assert add_multiples(s + 1, t, point) == G
    assert add_multiples(s - 1, t, point) == MINUS_G
    assert add_multiples(N - s, N - t, point) is None


@settings(max_examples=15, deadline=None)
@given(
    s=st.integers(0, 2**264),
    t=st.integers(0, 2**264),
    shift=st.integers(0, 255),
    sign=st.sampled_from([1, -1]),
)
def test_tables_that_share_points(s, t, shift, sign):
    u = sign * 2**shift % N
    assert add_multiples(s, t, slow_multiple(u, G)) == slow_multiple((s + t * u) % N, G)


@pytest.mark.parametrize("sign", [1, -1])
def test_equal_and_opposite_points_on_the_way(sign):
    # The signs of 1 are a plus and 263 minuses. After the base point's part of the first column
    # the sum is `so_far` times G; the next addend is `then` times the other point: the same point,
    # or the opposite one.
    so_far = 2**264 - sum(2 ** (11 * q + 10) for q in range(24))
    then = -sum(2 ** (44 * q + 10) for q in range(6))
    u = sign * so_far * pow(then, -1, N) % N
    assert add_multiples(1, 1, slow_multiple(u, G)) == slow_multiple((1 + u) % N, G)


@settings(max_examples=20, deadline=None)
@given(bits=st.integers(1, 264), number=st.integers(0, 2**264))
def test_numbers_with_leading_zeros(bits, number):
    k = number % 2**bits
    assert multiply_generator(k) == slow_multiple(k % N, G)
    assert multiply(k, MINUS_G) == slow_multiple(-k % N, G)
    assert add_multiples(k, 2**bits - 1, G) == slow_multiple((k + 2**bits - 1) % N, G)


@pytest.mark.parametrize("k", [2**264 - 1, 2**264, 2**264 + 1, 2**300 + 5, N * N, N**2 + 1])
def test_numbers_longer_than_the_signs(k):
    assert multiply_generator(k) == slow_multiple(k % N, G)
    assert add_multiples(k, k, MINUS_G) is None


def test_points_with_leading_zeros():
    point = point_from(1)
    assert point.x < 100
    for k in EDGES:
        assert multiply(k, point) == slow_multiple(k, point)
        assert add_multiples(k, k, point) == slow_sum(slow_multiple(k, G), slow_multiple(k, point))


@pytest.mark.parametrize(("teeth", "pieces"), [(8, 3), (6, 4)])
def test_the_entries_of_a_table(teeth, pieces):
    tables = sm2_points._build_tables(G, teeth)
    assert [len(table) for table in tables] == [2**teeth] * pieces
    for piece, table in enumerate(tables):
        for index in {0, 1, 2, 2 ** (teeth - 1) - 1, 2 ** (teeth - 1), 2**teeth - 1, 45}:
            signs = [1 if index >> tooth & 1 else -1 for tooth in range(teeth)]
            k = sum(sign << 11 * (pieces * i + piece) for i, sign in enumerate(signs))
            assert Point(*table[index]) == slow_multiple(k % N, G)
        assert len(set(table)) == 2**teeth
        assert all(is_on_curve(x, y) for x, y in table)


def test_the_points_kept_are_few_and_used_again():
    sm2_points._tables_of.cache_clear()
    points = [multiply_generator(k) for k in range(1, 20)]
    first = [multiply(7, point) for point in points]
    assert sm2_points._tables_of.cache_info().currsize == 16
    assert [multiply(7, point) for point in reversed(points)] == first[::-1]
    assert sm2_points._tables_of.cache_info().hits == 16


def test_importing_builds_no_table():
    code = (
        "import crypto.sm2, crypto.signer; from crypto import sm2_points as p;"
        "print(p._generator_tables.cache_info().currsize, p._tables_of.cache_info().currsize)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True, cwd=ROOT
    )
    assert run.stdout.split() == ["0", "0"]


def test_a_signature_whose_point_lies_beyond_the_order():
    # x1 is reduced modulo n; n <= x1 < p happens once in 2^128 signatures and can only be made.
    point = point_from(N)
    assert N <= point.x < P
    s, r = 2**200 + 1, 2**199 + 7
    t = (r + s) % N
    rest = slow_sum(point, slow_multiple(N - s, G))
    key = PublicKey(*slow_multiple(pow(t, -1, N), rest))
    signature = r.to_bytes(32, "big") + s.to_bytes(32, "big")
    verify_digest(key, ((r - point.x) % N).to_bytes(32, "big"), signature)
    with pytest.raises(InvalidSignatureError):
        verify_digest(key, ((r - point.x + 1) % N).to_bytes(32, "big"), signature)


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
    small, y = point_from(1)
    assert is_on_curve(small, y)
    assert not is_on_curve(small + P, y)
    assert not is_on_curve(small, y + P)
    assert not is_on_curve(small - P, y)
    assert small + P < 2**256
    assert decode_point(b"\x04" + (small + P).to_bytes(32, "big") + y.to_bytes(32, "big")) is None
