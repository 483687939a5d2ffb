"""Which units a challenge names: fixed by the specification, spread over all kinds."""

from __future__ import annotations

import hashlib
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.audit.challenge import MAX_UNITS, Extent, Unit, units

DIGEST, DRAWN = bytes(range(32)), bytes(range(32, 64))
EXTENT = Extent(prompt_tokens=17, output_tokens=5, num_layers=3)


def test_units_are_those_of_the_specification() -> None:
    """Written down anew from SPEC.md section 8, with another SM3."""
    wanted = []
    for i in range(50):
        data = b"windhover/challenge;v=1\0" + DIGEST + DRAWN + i.to_bytes(8, "little")
        block = hashlib.new("sm3", data).digest()
        low, high = (int.from_bytes(block[at : at + 8], "little") for at in (8, 16))
        if block[0] & 1:
            wanted.append((low % 21, high % 4))
        else:
            wanted.append((16 + low % 5, 4))
    assert units(DIGEST, DRAWN, 50, EXTENT) == tuple(Unit(*unit) for unit in wanted)


def test_half_of_them_are_token_choices_and_every_unit_is_drawn() -> None:
    drawn = Counter(units(DIGEST, DRAWN, MAX_UNITS, EXTENT))
    choices = sum(count for unit, count in drawn.items() if unit.layer == 4)
    assert 450 < choices < 574
    every = {Unit(t, layer) for t in range(21) for layer in range(4)}
    assert drawn.keys() == every | {Unit(t, 4) for t in range(16, 21)}


@settings(deadline=None, max_examples=30)
@given(
    st.binary(min_size=32, max_size=32),
    st.builds(Extent, *[st.integers(min_value=1, max_value=1 << 40)] * 3),
)
def test_units_lie_inside_the_answer(drawn: bytes, extent: Extent) -> None:
    for t, layer in units(DIGEST, drawn, 20, extent):
        assert 0 <= t < extent.num_positions
        assert 0 <= layer <= extent.num_layers + 1
        assert t >= extent.prompt_tokens - 1 or layer <= extent.num_layers


@pytest.mark.parametrize(
    ("digest", "drawn", "count"),
    [(b"", DRAWN, 1), (DIGEST, b"", 1), (DIGEST, DRAWN, 0), (DIGEST, DRAWN, MAX_UNITS + 1)],
)
def test_what_cannot_be_drawn(digest: bytes, drawn: bytes, count: int) -> None:
    with pytest.raises(ValueError, match=r"32 bytes|1 to 1024"):
        units(digest, drawn, count, EXTENT)
