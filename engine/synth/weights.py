"""Random matrices straight in panel layout: any run of panels, in any order, to the same bytes.

Every tensor has its own stream of Philox4x64-10, keyed by the seed and by what the tensor is, and
every panel its own place in it. Codes are the drawn bits as they are; scales, minima and floats are
looked up in small tables by some of the bits that would be in their place. So a byte of a file
depends on the seed, the tensor, its kind and its shape, and on nothing of the machine.

Source of the generator: J. K. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.vqf.kinds import KINDS, PANEL_ROWS, Kind
from engine.vqf.panels import packed_bytes

Bytes = NDArray[np.uint8]
Table = NDArray[np.generic]

PIECE_BYTES: Final = 4 << 20
"""About how much of a matrix is made at once; never less than a panel."""

_COUNTER_BYTES: Final = 32
"""What one value of the counter gives; the blocks of every kind are multiples of it."""

_DRAWN: Final = {"d": "d", "m": "d", "dmin": "d", "sc": "sc", "mn": "sc", "w": "w"}
"""Whose bits choose a field: a minimum belongs to its scale."""

_FLOAT_STEPS: Final = 1 << 16


class Stream(NamedTuple):
    """Random bytes of one tensor."""

    seed: int
    """0 .. 2^64 - 1."""
    number: int
    """Tells the tensors of a model apart: 0 .. 2^64 - 1."""

    def draw(self, first_counter: int, num_bytes: int) -> Bytes:
        """Return the bytes that belong to the values of the counter from the first one on."""
        key = np.array([self.seed, self.number], np.uint64)
        generator = np.random.Generator(np.random.Philox(key=key, counter=first_counter))
        # Over the full range this is the raw output, drawn without holding the interpreter.
        words = generator.integers(0, 1 << 64, -(-num_bytes // 8), np.uint64)
        return words.astype("<u8", copy=False).view(np.uint8)[:num_bytes]


class RandomMatrix:
    """A matrix [N, K] of values about 0 with a given deviation; nothing is made before it is asked.

    Codes are uniform, scales vary by a factor of 3 and have either sign where a kind has no
    minimum: its codes are not centred, and with one sign all rows would have a part in common.
    """

    def __init__(self, kind: str, shape: tuple[int, int], stream: Stream, deviation: float) -> None:
        """Choose the tables.

        Args:
            kind: a kind of `engine.vqf.kinds`.
            shape: N and K.
            stream: where the bits come from.
            deviation: standard deviation of the values.

        Raises:
            ValueError: unknown kind, or K is no multiple of the kind's block.
        """
        self._rows, self._columns = shape
        self._panel_bytes = packed_bytes(kind, PANEL_ROWS, self._columns)
        self._kind = KINDS[kind]
        self._stream = stream
        self._tables = _tables(self._kind, deviation)

    @property
    def num_panels(self) -> int:
        """Panels of the matrix; the last one may have rows beyond N."""
        return -(-self._rows // PANEL_ROWS)

    def pieces(self) -> Iterator[Bytes]:
        """Make the matrix in order, about `PIECE_BYTES` at a time."""
        step = max(1, PIECE_BYTES // self._panel_bytes)
        for first in range(0, self.num_panels, step):
            yield self.panels(first, min(step, self.num_panels - first))

    def panels(self, first: int, count: int) -> Bytes:
        """Make some panels."""
        counter = first * (self._panel_bytes // _COUNTER_BYTES)
        data = self._stream.draw(counter, count * self._panel_bytes)
        blocks = data.view(self._kind.dtype)
        drawn = {
            name: _index(blocks[name], self._tables[name])
            for name in set(_DRAWN.values()) & self._tables.keys()
        }
        for name, table in self._tables.items():
            blocks[name] = table.take(drawn[_DRAWN[name]])
        used_rows = self._rows % PANEL_ROWS
        if used_rows and first + count == self.num_panels:
            last = data[-self._panel_bytes :].reshape(-1, self._kind.block_bytes)
            last[:, self._kind.row_of_byte() >= used_rows] = 0
        return data


def random_vector(length: int, stream: Stream, centre: float, spread: float) -> Bytes:
    """Make binary32 values, uniform from `centre - spread` to `centre + spread`."""
    table = (centre + spread * _uniform()).astype("<f4")
    return table.take(stream.draw(0, 2 * length).view("<u2")).view(np.uint8)


def _index(field: NDArray[np.generic], table: Table) -> NDArray[np.unsignedinteger]:
    """Return the lowest bits of what was drawn, as many as the table has use for."""
    bits: NDArray[np.unsignedinteger] = field.view(f"<u{field.dtype.itemsize}")
    index: NDArray[np.unsignedinteger] = bits & bits.dtype.type(table.size - 1)
    return index


def _tables(kind: Kind, deviation: float) -> dict[str, Table]:
    """Return the values that each field of the head is chosen from; sizes are powers of two."""
    if not kind.group:
        return {"w": _floats(kind.head[0].element, math.sqrt(3) * deviation * _uniform())}
    fields = {field.name for field in kind.head}
    factors = 0.5 + np.arange(0.5, 128) / 128
    if fields.isdisjoint(("m", "dmin")):
        factors = np.concatenate([factors, -factors])
    tables: dict[str, Table] = {}
    levels = 1 << (kind.code_bits or 8)
    unit = deviation / (math.sqrt((levels * levels - 1) / 12) * _root_mean_square(factors))
    if "sc" in fields:
        steps = np.arange(16, 32)
        unit /= _root_mean_square(steps)
        tables["sc"] = steps.astype(np.uint8)
    if "mn" in fields:
        tables["mn"] = tables["sc"]
    tables["d"] = scales = (unit * factors).astype("<f2")
    middles = scales.astype(np.float64) * ((levels - 1) / 2)
    if "m" in fields:
        tables["m"] = (-middles).astype("<f2")
    if "dmin" in fields:
        tables["dmin"] = middles.astype("<f2")
    return tables


def _uniform() -> NDArray[np.float64]:
    """Return numbers from -1 to 1 in equal steps."""
    return (np.arange(0.5, _FLOAT_STEPS) - _FLOAT_STEPS / 2) / (_FLOAT_STEPS / 2)


def _floats(element: str, values: NDArray[np.float64]) -> Table:
    """Return the values as elements of a float kind; BF16 is the upper half of binary32."""
    if element == "<u2":
        return (values.astype("<f4").view("<u4") >> np.uint32(16)).astype("<u2")
    return values.astype(element)


def _root_mean_square(values: NDArray[np.generic]) -> float:
    squares = values.astype(np.float64) ** 2
    return math.sqrt(math.fsum(squares.tolist()) / squares.size)
