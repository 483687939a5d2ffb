"""What somebody with all weights gives to an auditor with few: the states around single units.

Source: verifier/SPEC.md section 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from crypto.cbor import Decoded, Encodable, encode
from crypto.cbor_map import CborMap
from crypto.sm3 import DIGEST_BYTES
from engine.audit.challenge import MAX_UNITS, Extent, Unit

VERSION: Final = 1
MAX_OPENING_BYTES: Final = 1 << 30
_FLOAT: Final = np.dtype("<f4")
_KEYS: Final = frozenset({"version", "statement", "challenge", "count", "roots", "units"})
_UNIT_KEYS: Final = frozenset({"t", "l", "state", "leaves"})
_BELOW_KEYS: Final = frozenset({"below", "below_leaves"})


@dataclass(frozen=True)
class OpenedUnit:
    """The states around one unit (t, l).

    unit: where. state: float32[hidden], x(t, min(l, L)). leaves: uint8[T - 1, 32], the other leaf
    hashes of its column. below: float32[t + 1, hidden], x(0 .. t, l - 1), of a layer only.
    below_leaves: uint8[T - t - 1, 32], the other leaf hashes of that column.
    """

    unit: Unit
    state: NDArray[np.float32]
    leaves: NDArray[np.uint8]
    below: NDArray[np.float32] | None = None
    below_leaves: NDArray[np.uint8] | None = None

    def as_map(self) -> dict[str, Encodable]:
        """Return the unit as it is encoded."""
        entries: dict[str, Encodable] = {
            "t": self.unit.position,
            "l": self.unit.layer,
            "state": self.state.astype(_FLOAT).tobytes(),
            "leaves": self.leaves.tobytes(),
        }
        if self.below is not None and self.below_leaves is not None:
            entries["below"] = self.below.astype(_FLOAT).tobytes()
            entries["below_leaves"] = self.below_leaves.tobytes()
        return entries


@dataclass(frozen=True)
class Opening:
    """The answer to a challenge.

    statement: SM3 of the signed object. challenge: 32 bytes. count: of the units of the challenge.
    roots: R_0 .. R_L. units: each unit of the challenge once, in the order of its first place.
    """

    statement: bytes
    challenge: bytes
    count: int
    roots: tuple[bytes, ...]
    units: tuple[OpenedUnit, ...]

    def encode(self) -> bytes:
        """Return the bytes of the file."""
        return encode(
            {
                "version": VERSION,
                "statement": self.statement,
                "challenge": self.challenge,
                "count": self.count,
                "roots": self.roots,
                "units": [unit.as_map() for unit in self.units],
            }
        )


def decode_opening(unverified_data: bytes, extent: Extent, width: int) -> Opening:
    """Return an opening whose parts have the sizes that an answer asks for.

    Args:
        unverified_data: bytes from anywhere.
        extent: of the answer.
        width: numbers in a state.

    Raises:
        FormatError: a rule of the CBOR subset or of objects (crypto/README.md); where a part of
            `roots` or `units` breaks one, its offset is that of the array.
    """
    entries = _OpeningMap(unverified_data, _KEYS, max_bytes=MAX_OPENING_BYTES)
    entries.integer("version", VERSION, VERSION)
    return Opening(
        entries.octets("statement", DIGEST_BYTES, DIGEST_BYTES),
        entries.octets("challenge", DIGEST_BYTES, DIGEST_BYTES),
        entries.integer("count", 1, MAX_UNITS),
        entries.roots(extent.num_layers + 1),
        tuple(entries.unit(value, extent, width) for value in entries.array("units", MAX_UNITS)),
    )


class _OpeningMap(CborMap):
    """An opening whose values are still to be asked for."""

    __slots__ = ()

    def array(self, key: str, most: int) -> Sequence[Decoded]:
        """Return an array of at most so many elements."""
        value = self._entries[key]
        if not isinstance(value, list):
            raise self.refusal(key, "value-type")
        if len(value) > most:
            raise self.refusal(key, "value-range")
        return value

    def roots(self, count: int) -> tuple[bytes, ...]:
        """Return R_0 .. R_L."""
        values = self.array("roots", count)
        if len(values) != count:
            raise self.refusal("roots", "value-range")
        return tuple(self._octets("roots", value, DIGEST_BYTES) for value in values)

    def unit(self, value: Decoded, extent: Extent, width: int) -> OpenedUnit:
        """Return one unit with arrays of the shapes that its place asks for."""
        if not isinstance(value, dict):
            raise self.refusal("units", "value-type")
        position = self._number(value.get("t"), extent.num_positions - 1)
        layer = self._number(value.get("l"), extent.num_layers + 1)
        is_layer = 1 <= layer <= extent.num_layers
        wanted = _UNIT_KEYS | _BELOW_KEYS if is_layer else _UNIT_KEYS
        if not value.keys() >= wanted:
            raise self.refusal("units", "missing-key")
        if len(value) != len(wanted):
            raise self.refusal("units", "unknown-key")
        others = extent.num_positions - position - 1
        return OpenedUnit(
            Unit(position, layer),
            self._floats(value["state"], 1, width)[0],
            self._hashes(value["leaves"], extent.num_positions - 1),
            self._floats(value["below"], position + 1, width) if is_layer else None,
            self._hashes(value["below_leaves"], others) if is_layer else None,
        )

    def _number(self, value: Decoded | None, most: int) -> int:
        if value is None:
            raise self.refusal("units", "missing-key")
        if type(value) is not int:
            raise self.refusal("units", "value-type")
        if not 0 <= value <= most:
            raise self.refusal("units", "value-range")
        return value

    def _octets(self, key: str, value: Decoded, length: int) -> bytes:
        if not isinstance(value, bytes):
            raise self.refusal(key, "value-type")
        if len(value) != length:
            raise self.refusal(key, "value-range")
        return value

    def _floats(self, value: Decoded, rows: int, width: int) -> NDArray[np.float32]:
        data = self._octets("units", value, rows * width * _FLOAT.itemsize)
        return np.frombuffer(data, _FLOAT).reshape(rows, width).astype(np.float32)

    def _hashes(self, value: Decoded, count: int) -> NDArray[np.uint8]:
        data = self._octets("units", value, count * DIGEST_BYTES)
        return np.frombuffer(data, np.uint8).reshape(count, DIGEST_BYTES)
