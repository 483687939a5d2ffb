"""Sixteen bytes of each of many inputs as four vectors of words, and back.

A lane is one input. Lane 4q + j lies in quarter q of a vector, so that no word crosses a 128-bit
part of a register.
"""

from __future__ import annotations

from collections.abc import Sequence

from simd.code import I8, I32, Code, IrType, Val, vec

WORDS4 = vec(I32, 4)


def words(lanes: int) -> IrType:
    """Return the type of one 32-bit word of every lane."""
    return vec(I32, lanes)


def as_bytes(value: Val) -> Val:
    """Return the bytes of a vector of words."""
    return value.bitcast(vec(I8, 4 * value.type.count))


def as_words(value: Val) -> Val:
    """Return the words of a vector of bytes."""
    return value.bitcast(vec(I32, value.type.count // 4))


def swap_bytes(value: Val) -> Val:
    """Reverse the bytes of each word: what is loaded is big-endian."""
    return as_words(as_bytes(value).shuffle([i ^ 3 for i in range(4 * value.type.count)]))


def rotate_bytes(value: Val, count: int) -> Val:
    """Rotate each word left by whole bytes with one shuffle."""
    lanes = value.type.count
    order = [4 * lane + (i - count) % 4 for lane in range(lanes) for i in range(4)]
    return as_words(as_bytes(value).shuffle(order))


def transpose(rows: Sequence[Val]) -> list[Val]:
    """Exchange rows and columns of the 4 x 4 words in each quarter of four vectors."""
    lanes = rows[0].type.count

    def pick(first: Val, second: Val, order: Sequence[int]) -> Val:
        """Take lanes in every quarter; 4 to 7 are the second vector's."""
        lane = [q + i if i < 4 else lanes + q + i - 4 for q in range(0, lanes, 4) for i in order]
        return first.shuffle(lane, second)

    low01, low23 = (pick(a, b, (0, 4, 1, 5)) for a, b in (rows[:2], rows[2:]))
    high01, high23 = (pick(a, b, (2, 6, 3, 7)) for a, b in (rows[:2], rows[2:]))
    columns = []
    for a, b in ((low01, low23), (high01, high23)):
        columns += [pick(a, b, (0, 1, 4, 5)), pick(a, b, (2, 3, 6, 7))]
    return columns


def load_words(code: Code, pointers: Sequence[Val], offset: int) -> list[Val]:
    """Read 16 bytes of every lane as four vectors of big-endian words.

    Args:
        code: where to write.
        pointers: one address a lane.
        offset: added to each.
    """
    rows = []
    for j in range(4):
        quarters = [code.load(WORDS4, pointer + offset) for pointer in pointers[j::4]]
        while len(quarters) > 1:
            quarters = [a.join(b) for a, b in zip(quarters[::2], quarters[1::2], strict=True)]
        rows.append(swap_bytes(quarters[0]))
    return transpose(rows)


def quarter(value: Val, index: int) -> Val:
    """Return four lanes."""
    return value.shuffle([4 * index + i for i in range(4)])
