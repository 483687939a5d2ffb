"""The affine maps around AES's inversion, against definitions written another way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crypto.kernels.sm4_maps import SBOX, Affine, derive, invert, multiply

AES = 0x11B
BYTES = st.integers(0, 255)


def aes_sbox(x: int) -> int:
    """FIPS 197 section 5.1.1."""
    b = invert(x, AES)
    rotated = [(b << n | b >> (8 - n)) & 0xFF for n in range(5)]
    return rotated[0] ^ rotated[1] ^ rotated[2] ^ rotated[3] ^ rotated[4] ^ 0x63


def gf2p8affineqb(matrix: int, x: int, constant: int) -> int:
    """Intel's definition: bit i is the parity of the matrix's byte 7 - i and x."""
    rows = matrix.to_bytes(8, "little")
    return constant ^ sum((((rows[7 - i] & x).bit_count() & 1) << i) for i in range(8))


def test_the_s_box_is_a_permutation_with_the_standards_corners() -> None:
    assert sorted(SBOX) == list(range(256))
    assert (SBOX[0], SBOX[0xEF], SBOX[0xFF]) == (0xD6, 0x84, 0x48)  # 0xEF: the standard's example


def test_aes_sbox_by_published_values() -> None:
    # FIPS 197 figure 7
    assert [aes_sbox(x) for x in (0x00, 0x01, 0x53, 0xFF)] == [0x63, 0x7C, 0xED, 0x16]


@pytest.mark.parametrize("x", range(0, 256, 5))
def test_maps_around_the_inversion_and_around_aes(x: int) -> None:
    maps = derive()
    assert maps.exit(invert(maps.enter(x), AES)) == SBOX[x]
    assert maps.after_aes_sbox().exit(aes_sbox(maps.enter(x))) == SBOX[x]
    assert maps.leave(maps.enter.linear(x)) == x


@pytest.mark.parametrize("y", [0x00000000, 0xFFFFFFFF, 0x01234567, 0x80FE3C5A])
def test_two_maps_are_the_linear_transformation(y: int) -> None:
    """X0 + w + rol8(v) + rol16(v) + rol24(v + w) is enter's linear part of L(S(t))."""
    maps = derive()
    given_bytes = y.to_bytes(4, "big")
    inverted = [invert(maps.enter(b), AES) for b in given_bytes]

    def rol(word: int, count: int) -> int:
        return (word << count | word >> (32 - count)) & 0xFFFFFFFF if count else word

    s = int.from_bytes(bytes(SBOX[b] for b in given_bytes), "big")
    expected = s ^ rol(s, 2) ^ rol(s, 10) ^ rol(s, 18) ^ rol(s, 24)
    v, w = (int.from_bytes(bytes(m(b) for b in inverted), "big") for m in (maps.v, maps.w))
    mixed = w ^ rol(v, 8) ^ rol(v, 16) ^ rol(v ^ w, 24)
    assert mixed.to_bytes(4, "big") == bytes(
        maps.enter.linear(b) for b in expected.to_bytes(4, "big")
    )


@given(columns=st.lists(BYTES, min_size=8, max_size=8), constant=BYTES, x=BYTES)
def test_forms_that_instructions_take(columns: list[int], constant: int, x: int) -> None:
    affine = Affine(tuple(columns), constant)
    assert gf2p8affineqb(affine.as_qword(), x, constant) == affine(x)
    low, high = affine.as_tables()
    assert low[x & 15] ^ high[x >> 4] == affine(x)


@given(a=BYTES, b=BYTES, c=BYTES)
def test_the_field(a: int, b: int, c: int) -> None:
    assert multiply(a, b ^ c, AES) == multiply(a, b, AES) ^ multiply(a, c, AES)
    assert multiply(a, b, AES) == multiply(b, a, AES)
    assert multiply(0x57, 0x83, AES) == 0xC1  # FIPS 197 section 4.2
    assert a == 0 or multiply(a, invert(a, AES), AES) == 1
