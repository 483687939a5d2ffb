"""What a block of each tensor kind consists of (FORMAT.md section 6).

Every field of a block is `repeats` times 16 rows times `row_bytes`: that one shape gives sizes,
offsets, the NumPy view of a block, and which row a byte belongs to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

PANEL_ROWS: Final = 16
GROUP_INPUTS: Final = 32


class Field(NamedTuple):
    """One field of a panel block: (n * 16 + r) * row_bytes is the n-th offset of row r."""

    name: str
    repeats: int
    row_bytes: int
    element: str
    """NumPy type of the `row_bytes` bytes of one row; codes are moved four at a time as one u4."""

    @property
    def size_bytes(self) -> int:
        """Length of the field in a block."""
        return self.repeats * PANEL_ROWS * self.row_bytes


class Kind(NamedTuple):
    """Layout of one kind: `head` once, then `group` once for every 32 inputs of the block."""

    name: str
    block_inputs: int
    head: tuple[Field, ...]
    group: tuple[Field, ...] = ()

    @property
    def num_groups(self) -> int:
        """Groups of 32 inputs in a block; 0 in the float kinds."""
        return self.block_inputs // GROUP_INPUTS

    @property
    def fields(self) -> tuple[Field, ...]:
        """All fields of a block in file order."""
        return self.head + self.group * self.num_groups

    @property
    def block_bytes(self) -> int:
        """Length of one panel block."""
        return sum(field.size_bytes for field in self.fields)

    @property
    def code_bits(self) -> int:
        """Width of an unsigned code; 0 where values are not cut into `nib` and the rest."""
        names = {field.name for field in self.group}
        return ("nib" in names) * 4 + ("bit" in names) * 1 + ("two" in names) * 2

    @property
    def dtype(self) -> np.dtype[np.void]:
        """Structured type of one block; `groups` is one field of shape (num_groups,)."""
        members: list[tuple[str, object, tuple[int, ...]]] = [_member(field) for field in self.head]
        if self.group:
            members.append(("groups", [_member(field) for field in self.group], (self.num_groups,)))
        return np.dtype(members)

    def row_of_byte(self) -> NDArray[np.uint8]:
        """Return for every byte of a block the row that it belongs to: uint8[block_bytes]."""
        rows = np.arange(PANEL_ROWS, dtype=np.uint8)
        return np.concatenate(
            [np.tile(np.repeat(rows, f.row_bytes), f.repeats) for f in self.fields]
        )


def _member(field: Field) -> tuple[str, object, tuple[int, ...]]:
    """Return the NumPy description of a field."""
    shape = (PANEL_ROWS,) if field.repeats == 1 else (field.repeats, PANEL_ROWS)
    return (field.name, field.element, shape)


_D = Field("d", 1, 2, "<f2")
_M = Field("m", 1, 2, "<f2")
_DMIN = Field("dmin", 1, 2, "<f2")
_SC = Field("sc", 8, 1, "u1")
_MN = Field("mn", 8, 1, "u1")
_SC_SIGNED = Field("sc", 16, 1, "i1")
_NIB = Field("nib", 4, 4, "<u4")
_BIT = Field("bit", 1, 4, "<u4")
_TWO = Field("two", 2, 4, "<u4")
_Q = Field("q", 8, 4, "<u4")

KINDS: Final[dict[str, Kind]] = {
    kind.name: kind
    for kind in (
        Kind("F32", 1, (Field("w", 1, 4, "<f4"),)),
        Kind("F16", 1, (Field("w", 1, 2, "<f2"),)),
        Kind("BF16", 1, (Field("w", 1, 2, "<u2"),)),
        Kind("Q4_0", 32, (_D,), (_NIB,)),
        Kind("Q4_1", 32, (_D, _M), (_NIB,)),
        Kind("Q5_0", 32, (_D,), (_NIB, _BIT)),
        Kind("Q5_1", 32, (_D, _M), (_NIB, _BIT)),
        Kind("Q8_0", 32, (_D,), (_Q,)),
        Kind("Q4_K", 256, (_D, _DMIN, _SC, _MN), (_NIB,)),
        Kind("Q5_K", 256, (_D, _DMIN, _SC, _MN), (_NIB, _BIT)),
        Kind("Q6_K", 256, (_D, _SC_SIGNED), (_NIB, _TWO)),
    )
}
"""Every kind that a VQF file may use, by its name."""
