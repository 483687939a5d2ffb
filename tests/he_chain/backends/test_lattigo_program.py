from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from he_chain.backends.lattigo_ciphertext import ciphertext_shape
from he_chain.backends.lattigo_parameters import BootParameters
from he_chain.backends.lattigo_program import Program, galois_elements
from he_chain.errors import LevelError, PlanError, ProtocolError, RangeError
from tests.he_chain.lattigo_values import read_program, run_program

SMALL = BootParameters(9, 9, log_slots=4)
PRIMES = (97, 193, 257)


def test_the_real_parameters_fit_the_table_with_their_whole_modulus() -> None:
    real = BootParameters(16, 9)
    assert real.total_bits == 60 + 9 * 45 + (4 * 56 + 8 * 60 + 3 * 39) + 9 * 53 == 1763
    assert real.as_chain.total_bits == real.total_bits
    assert real.as_chain.num_levels == 9
    assert real.secret_weight == 32768
    assert BootParameters(16, 9, dense_secret=False).secret_weight == 192
    assert real.boot_key_bytes == 2 * 3 * (25 + 9) * 65536 * 8
    assert real.key_bytes == 2 * 2 * (10 + 5) * 65536 * 8


def test_a_linear_step_is_a_sum_of_turned_products(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    diagonals, bias = rng.normal(size=(16, 16)), rng.normal(size=16)
    program = Program(SMALL)
    y = program.linear("map", program.input(3), diagonals, bias)
    assert y.level == 2
    size = program.write(tmp_path / "p", y)
    assert size == (tmp_path / "p").stat().st_size
    x = rng.normal(size=256)
    found = run_program(tmp_path / "p", x)
    slot = 37
    wanted = sum(diagonals[k, slot % 16] * x[slot + k] for k in range(16)) + bias[slot % 16]
    assert found[slot] == pytest.approx(wanted)
    assert program.rotations == {1, 2, 3, 4, 8, 12}
    assert program.counts == {"rotations": 6, "ct_pt": 16, "encodes": 17, "rescales": 1}


def test_the_file_names_the_automorphisms_of_its_rotations(tmp_path: Path) -> None:
    program = Program(SMALL)
    y = program.linear("map", program.input(1), np.eye(4))
    program.write(tmp_path / "p", y)
    metadata, _ = read_program(tmp_path / "p")
    assert metadata["manifest"]["galois_elements"] == [5, 25]
    assert metadata["params"]["h"] == 256
    assert metadata["input_level"] == 1
    assert galois_elements({256}, SMALL) == [1]


def test_levels_are_followed_and_refused_by_name() -> None:
    program = Program(SMALL)
    x = program.input(4)
    assert program.chebyshev("p", x, np.ones(16)).level == 0
    assert program.chebyshev("q", x, np.ones(4)).level == 2
    assert program.square("s", x).level == 3
    with pytest.raises(LevelError, match="r: takes 5 levels, 4 left"):
        program.chebyshev("r", x, np.ones(17))
    low = program.chebyshev("low", x, np.ones(16))
    assert program.add("sum", x, low).level == 0
    for build in (
        lambda: program.square("t", low),
        lambda: program.mul("u", x, low),
        lambda: program.linear("v", low, np.eye(4)),
        lambda: program.bootstrap("w", low, 1.0),
    ):
        with pytest.raises(LevelError):
            build()
    assert program.bootstrap("b", program.square("again", x), 1.0).level == 9


def test_what_no_program_can_be_is_refused() -> None:
    program = Program(SMALL)
    x = program.input(4)
    with pytest.raises(PlanError, match="one input"):
        program.input(4)
    with pytest.raises(LevelError):
        Program(SMALL).input(10)
    program.square("s", x)
    with pytest.raises(PlanError, match="two steps are called s"):
        program.square("s", x)
    for shape in ((3, 4), (8, 8), (4, 3), (1024, 1024)):
        with pytest.raises(PlanError, match="diagonals"):
            program.linear("m", x, np.ones(shape))
    with pytest.raises(PlanError, match="not finite"):
        program.linear("m", x, np.full((4, 4), np.nan))
    for coefficients in (np.ones(2), np.ones(200), np.array([1.0, np.inf, 1.0])):
        with pytest.raises(PlanError, match="polynomial"):
            program.chebyshev("c", x, coefficients)
    for bound in (1.0001, 0.0, float("nan"), float("inf")):
        with pytest.raises(RangeError, match="takes \\[-1, 1\\]"):
            program.bootstrap("b", x, bound)


def ciphertext(
    rows: int = 2, degree: int = 8, scale: str = "1.099e+12", *, polys: int = 2, value: int = 5
) -> bytes:
    """Return the bytes of a ciphertext as Lattigo 6.2.0 writes it."""
    meta = {
        "PlaintextMetaData": {
            "Scale": {"Value": scale, "Mod": "0.0e+00"},
            "IsBatched": "0x01",
            "IsBitReversed": "0x00",
            "LogDimensions": ["0x00", f"0x{degree.bit_length() - 2:02x}"],
        },
        "CiphertextMetaData": {"IsNTT": "0x01", "IsMontgomery": "0x00"},
    }
    row = struct.pack(f"<{degree + 1}Q", degree, *[value] * degree)
    body = struct.pack("<Q", polys) + polys * (struct.pack("<Q", rows) + rows * row)
    return b"\1" + json.dumps(meta, separators=(",", ":")).encode() + body


def test_a_ciphertext_tells_its_level_and_scale() -> None:
    for rows in (1, 2, 3):
        shape = ciphertext_shape(ciphertext(rows), 8, PRIMES)
        assert (shape.level, shape.scale) == (rows - 1, 1.099e12)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\1",
        b"\1{}",
        ciphertext(4),
        ciphertext(degree=16),
        ciphertext(polys=1),
        ciphertext(polys=3),
        ciphertext(value=97),
        ciphertext(scale="nan"),
        ciphertext(scale="0.5"),
        ciphertext(scale="1e99"),
        ciphertext() + b"\0",
        ciphertext() + bytes(8),
        ciphertext().replace(b'"IsNTT":"0x01"', b'"IsNTT":"0x00"'),
        ciphertext().replace(b'"IsMontgomery":"0x00"', b'"IsMontgomery":"0x01"'),
        b"\1" + b"[" * 5000,
    ],
)
def test_what_is_no_ciphertext_never_reaches_the_library(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        ciphertext_shape(data, 8, PRIMES)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, len(ciphertext()) - 1))
def test_a_ciphertext_that_is_cut_short_never_does(cut: int) -> None:
    with pytest.raises(ProtocolError):
        ciphertext_shape(ciphertext()[:cut], 8, PRIMES)


@settings(deadline=None, max_examples=100)
@given(st.integers(0, len(ciphertext()) - 1), st.binary(min_size=1, max_size=8))
def test_of_a_damaged_ciphertext_at_most_values_are_wrong(place: int, patch: bytes) -> None:
    data = bytearray(ciphertext())
    data[place : place + len(patch)] = patch
    try:
        shape = ciphertext_shape(bytes(data), 8, PRIMES)
    except ProtocolError:
        return
    assert shape.level == 1
