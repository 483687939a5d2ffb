from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.sampling.generator import draw64, philox4x32_10

VECTORS = Path(__file__).parents[2] / "data" / "sampling" / "philox.json"
TESTS = json.loads(VECTORS.read_text(encoding="utf-8"))["tests"]


def words(texts: list[str]) -> tuple[int, ...]:
    return tuple(int(text, 16) for text in texts)


@pytest.mark.parametrize("vector", TESTS, ids=lambda vector: vector["comment"])
def test_published_vectors(vector) -> None:
    got = philox4x32_10(words(vector["counter"]), words(vector["key"]))
    assert got == words(vector["words"])


def test_seed_is_the_key_and_position_the_counter() -> None:
    seed, position = 0x299F31D0A4093822, 0x85A308D3243F6A88
    low, high, _, _ = philox4x32_10((0x243F6A88, 0x85A308D3, 0, 0), (0xA4093822, 0x299F31D0))
    assert draw64(seed, position) == high << 32 | low


def chi_square(counts: list[int]) -> float:
    expected = sum(counts) / len(counts)
    return sum((count - expected) ** 2 for count in counts) / expected


@pytest.mark.parametrize("seed", [0, 1, 2**63])
@pytest.mark.parametrize("shift", [0, 28, 56], ids=["low byte", "middle byte", "high byte"])
def test_bytes_are_uniform_over_positions(seed: int, shift: int) -> None:
    counts = [0] * 256
    for position in range(20_000):
        counts[(draw64(seed, position) >> shift) & 255] += 1
    # 255 degrees of freedom: mean 255, standard deviation 22.6; six of them either way.
    assert 120 < chi_square(counts) < 390


def test_neighbouring_seeds_and_positions_differ_in_about_half_of_the_bits() -> None:
    base = draw64(5, 7)
    for other in (draw64(6, 7), draw64(5, 8), draw64(5 + 2**32, 7), draw64(5, 7 + 2**32)):
        assert 12 < (base ^ other).bit_count() < 52
