"""S2: the counter-based generator Philox4x32-10.

Source: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as
1, 2, 3", SC 2011, section 3.3. A draw depends on (seed, position) alone: no state is kept, so that
any position can be drawn again by itself.
"""

from __future__ import annotations

from typing import Final

_ROUNDS: Final = 10
_MULTIPLIERS: Final = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS: Final = (0x9E3779B9, 0xBB67AE85)
_WORD: Final = 0xFFFFFFFF

Words2 = tuple[int, int]
Words4 = tuple[int, int, int, int]


def philox4x32_10(counter: Words4, key: Words2) -> Words4:
    """Return the four 32-bit words that belong to a counter under a key.

    Args:
        counter: four words 0 .. 2^32 - 1, the lowest first.
        key: two such words.
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        first, second = _MULTIPLIERS[0] * c0, _MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (
            (second >> 32) ^ c1 ^ k0,
            second & _WORD,
            (first >> 32) ^ c3 ^ k1,
            first & _WORD,
        )
        k0, k1 = (k0 + _KEY_STEPS[0]) & _WORD, (k1 + _KEY_STEPS[1]) & _WORD
    return c0, c1, c2, c3


def draw64(seed: int, position: int) -> int:
    """Return the random 64-bit integer for one position of a sequence.

    Args:
        seed: 0 .. 2^64 - 1.
        position: position in the sequence (prompt included) of the token to draw, 0 .. 2^64 - 1.
    """
    counter = (position & _WORD, position >> 32, 0, 0)
    low, high, _, _ = philox4x32_10(counter, (seed & _WORD, seed >> 32))
    return high << 32 | low
