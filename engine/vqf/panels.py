"""The layout of matrices in a VQF file, which is the one that kernels read (FORMAT.md section 6).

Letters: N rows (outputs), K columns (inputs), P panels of 16 rows, B blocks of a row, G groups of
32 inputs of a block, S groups of 4 codes (S = 8 G). Rows beyond N are zero bits.

Fields of a matrix, as `pack` takes and `unpack` returns them:

- `q`: uint8[N, K] codes without their offset removed; int8[N, K] in Q8_0
- `d`, `m`, `dmin`: float16[N, B]
- `sc`, `mn`: uint8[N, K / 32]; in Q6_K `sc` is int8[N, K / 16]
- `w`: the float kinds, float32, float16 or (BF16) uint16 [N, K]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from engine.vqf.groups import Groups, integer_groups, values
from engine.vqf.kinds import KINDS, PANEL_ROWS, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

__all__ = [
    "BLOCK_BYTES",
    "BLOCK_INPUTS",
    "Groups",
    "integer_groups",
    "pack",
    "packed_bytes",
    "rows_beyond_are_zero",
    "unpack",
    "values",
]

BLOCK_INPUTS: Final[dict[str, int]] = {name: kind.block_inputs for name, kind in KINDS.items()}
BLOCK_BYTES: Final[dict[str, int]] = {name: kind.block_bytes for name, kind in KINDS.items()}

_SLAB_CODES: Final = 1 << 19
"""Codes that are moved at once, so that the temporaries of a large matrix stay in the cache."""

_LOW_NIBBLE = np.uint32(0x0F0F0F0F)
_LOW_BIT = np.uint32(0x01010101)
_LOW_TWO = np.uint32(0x03030303)
_FOUR = np.uint32(4)


def packed_bytes(kind: str, rows: int, columns: int) -> int:
    """Return the length of a packed matrix.

    Raises:
        ValueError: unknown kind, a dimension below 1, or columns that are no multiple of the kind's
            block.
    """
    if kind not in KINDS:
        raise ValueError(f"unknown tensor kind {kind!r}")
    if rows < 1 or columns < 1 or columns % BLOCK_INPUTS[kind]:
        raise ValueError(
            f"{rows} x {columns} is no shape of kind {kind}: columns come in {BLOCK_INPUTS[kind]}"
        )
    panels = -(-rows // PANEL_ROWS)
    return panels * (columns // BLOCK_INPUTS[kind]) * BLOCK_BYTES[kind]


def pack(
    kind: str, fields: Mapping[str, NDArray[Any]], rows: int, columns: int
) -> NDArray[np.uint8]:
    """Return the matrix in panel layout.

    Args:
        kind: a kind of `engine.vqf.kinds`.
        fields: exactly the fields of the kind, shapes and types as in the module's docstring.
        rows: N.
        columns: K.

    Returns:
        uint8[packed_bytes(kind, rows, columns)].

    Raises:
        ValueError: unknown kind, wrong shape or type of a field, or a code that its kind has no
            bits for.
    """
    size_bytes = packed_bytes(kind, rows, columns)
    layout = KINDS[kind]
    arrays = _checked(layout, fields, rows, columns)
    out = np.zeros(size_bytes, np.uint8)
    blocks = out.view(layout.dtype).reshape(-(-rows // PANEL_ROWS), columns // layout.block_inputs)
    for panels, first, last in _slabs(rows, columns):
        slab = {name: _panelled(array[first:last]) for name, array in arrays.items()}
        _pack_slab(layout, slab, blocks[panels])
    return out


def unpack(kind: str, data: NDArray[np.uint8], rows: int, columns: int) -> dict[str, NDArray[Any]]:
    """Return the fields of a matrix in panel layout: the inverse of `pack`.

    Args:
        kind: a kind of `engine.vqf.kinds`.
        data: uint8[packed_bytes(kind, rows, columns)].
        rows: N.
        columns: K.

    Raises:
        ValueError: unknown kind, or data of another length or type.
    """
    blocks = _blocks(kind, data, rows, columns)
    layout = KINDS[kind]
    out = {
        name: np.empty((rows, width), dtype)
        for name, (width, dtype) in _field_shapes(layout, columns).items()
    }
    for panels, first, last in _slabs(rows, columns):
        for name, array in _unpack_slab(layout, blocks[panels]).items():
            # [P, 16, width] -> [rows of the slab, width], without the rows beyond N
            out[name][first:last] = array.reshape(-1, array.shape[-1])[: last - first]
    return out


def rows_beyond_are_zero(kind: str, data: NDArray[np.uint8], rows: int, columns: int) -> bool:
    """Return whether every bit of the rows beyond `rows` is zero (rule R41).

    Raises:
        ValueError: unknown kind, or data of another length or type.
    """
    blocks = _blocks(kind, data, rows, columns)
    used_rows = rows % PANEL_ROWS
    if used_rows == 0:
        return True
    layout = KINDS[kind]
    last_panel = blocks[-1].view(np.uint8).reshape(-1, layout.block_bytes)
    return not last_panel[:, layout.row_of_byte() >= used_rows].any()


def _field_shapes(layout: Kind, columns: int) -> dict[str, tuple[int, np.dtype[Any]]]:
    """Return for every field of a matrix its values in a row and its type."""
    blocks = columns // layout.block_inputs
    shapes = {
        field.name: (blocks * field.repeats, np.dtype(field.element)) for field in layout.head
    }
    if layout.group:
        code_type = np.uint8 if layout.code_bits else np.int8
        shapes["q"] = (columns, np.dtype(code_type))
    return shapes


def _checked(
    layout: Kind, fields: Mapping[str, NDArray[Any]], rows: int, columns: int
) -> dict[str, NDArray[Any]]:
    """Return the fields as contiguous arrays after comparing names, types and shapes."""
    shapes = _field_shapes(layout, columns)
    if fields.keys() != shapes.keys():
        raise ValueError(
            f"kind {layout.name} has the fields {sorted(shapes)}, not {sorted(fields)}"
        )
    for name, (width, dtype) in shapes.items():
        if fields[name].shape != (rows, width) or fields[name].dtype != dtype:
            raise ValueError(
                f"field {name} of kind {layout.name} must be {dtype} of shape {(rows, width)}, "
                f"not {fields[name].dtype} of shape {fields[name].shape}"
            )
    return {name: np.ascontiguousarray(array) for name, array in fields.items()}


def _blocks(kind: str, data: NDArray[np.uint8], rows: int, columns: int) -> NDArray[np.void]:
    """Return packed data as structured blocks [P, B]."""
    size_bytes = packed_bytes(kind, rows, columns)
    if data.dtype != np.uint8 or data.shape != (size_bytes,):
        raise ValueError(
            f"{kind} of {rows} x {columns} must be uint8 of shape {(size_bytes,)}, "
            f"not {data.dtype} of shape {data.shape}"
        )
    blocks = np.ascontiguousarray(data).view(KINDS[kind].dtype)
    return blocks.reshape(-(-rows // PANEL_ROWS), columns // BLOCK_INPUTS[kind])


def _slabs(rows: int, columns: int) -> Iterator[tuple[slice, int, int]]:
    """Yield runs of panels as (panels, first row, row after the last)."""
    panels = -(-rows // PANEL_ROWS)
    step = max(1, _SLAB_CODES // (PANEL_ROWS * columns))
    for start in range(0, panels, step):
        stop = min(start + step, panels)
        yield slice(start, stop), start * PANEL_ROWS, min(stop * PANEL_ROWS, rows)


def _panelled(array: NDArray[Any]) -> NDArray[Any]:
    """Return [rows, width] as [P, 16, width], filled with zero bits."""
    rows, width = array.shape
    missing = -rows % PANEL_ROWS
    if missing:
        array = np.concatenate([array, np.zeros((missing, width), array.dtype)])
    return array.reshape(-1, PANEL_ROWS, width)


def _pack_slab(layout: Kind, slab: dict[str, NDArray[Any]], blocks: NDArray[np.void]) -> None:
    """Write the fields [P, 16, width] of some panels into their blocks [P, B]."""
    num_panels, num_blocks = blocks.shape
    for field in layout.head:
        array = slab[field.name].reshape(num_panels, PANEL_ROWS, num_blocks, field.repeats)
        moved = array.transpose(0, 2, 3, 1)  # [P, B, repeats, 16]
        blocks[field.name] = moved.reshape(blocks[field.name].shape)
    if not layout.group:
        return
    groups = blocks["groups"]  # [P, B, G]
    codes = slab["q"].view("<u4")  # four codes at a time
    if layout.code_bits and (codes & ~np.uint32(_LOW_BIT * ((1 << layout.code_bits) - 1))).any():
        raise ValueError(f"a code of kind {layout.name} needs more than {layout.code_bits} bits")
    codes = codes.reshape(num_panels, PANEL_ROWS, num_blocks, layout.num_groups, 8)
    codes = codes.transpose(0, 2, 3, 4, 1)  # [P, B, G, 8, 16]
    for field in layout.group:
        groups[field.name] = _PACK_CODES[field.name](codes)


def _unpack_slab(layout: Kind, blocks: NDArray[np.void]) -> dict[str, NDArray[Any]]:
    """Return the fields [P, 16, width] of blocks [P, B]."""
    num_panels, num_blocks = blocks.shape
    out: dict[str, NDArray[Any]] = {}
    for field in layout.head:
        array = blocks[field.name].reshape(num_panels, num_blocks, field.repeats, PANEL_ROWS)
        moved = array.transpose(0, 3, 1, 2)  # [P, 16, B, repeats]
        out[field.name] = moved.reshape(num_panels, PANEL_ROWS, -1)
    if layout.group:
        groups = blocks["groups"]
        codes = np.zeros((num_panels, num_blocks, layout.num_groups, 8, PANEL_ROWS), "<u4")
        for field in layout.group:
            _UNPACK_CODES[field.name](groups[field.name], codes)
        moved = np.ascontiguousarray(codes.transpose(0, 4, 1, 2, 3))  # [P, 16, B, G, 8]
        code_type = np.uint8 if layout.code_bits else np.int8
        out["q"] = moved.view(code_type).reshape(num_panels, PANEL_ROWS, -1)
    return out


def _pack_nib(codes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """[P, B, G, 8, 16] -> [P, B, G, 4, 16]: low halves k = 8j + i, high ones k = 8j + 4 + i."""
    return (codes[..., 0::2, :] & _LOW_NIBBLE) | ((codes[..., 1::2, :] & _LOW_NIBBLE) << _FOUR)


def _unpack_nib(nib: NDArray[np.uint32], codes: NDArray[np.uint32]) -> None:
    """Inverse of `_pack_nib`, into `codes`."""
    codes[..., 0::2, :] |= nib & _LOW_NIBBLE
    codes[..., 1::2, :] |= (nib >> _FOUR) & _LOW_NIBBLE


def _pack_bit(codes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """[P, B, G, 8, 16] -> [P, B, G, 16]: bit s is bit 4 of k = 4s + i."""
    bits = np.zeros(codes.shape[:3] + codes.shape[4:], np.uint32)
    for s in range(8):
        bits |= ((codes[..., s, :] >> _FOUR) & _LOW_BIT) << np.uint32(s)
    return bits


def _unpack_bit(bits: NDArray[np.uint32], codes: NDArray[np.uint32]) -> None:
    """Inverse of `_pack_bit`, into `codes`."""
    for s in range(8):
        codes[..., s, :] |= ((bits >> np.uint32(s)) & _LOW_BIT) << _FOUR


def _pack_two(codes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """[P, B, G, 8, 16] -> [P, B, G, 2, 16]: bits 2t, 2t + 1 are bits 4, 5 of k = 4(4h + t) + i."""
    twos = np.zeros((*codes.shape[:3], 2, codes.shape[4]), np.uint32)
    for s in range(8):
        h, t = divmod(s, 4)
        twos[..., h, :] |= ((codes[..., s, :] >> _FOUR) & _LOW_TWO) << np.uint32(2 * t)
    return twos


def _unpack_two(twos: NDArray[np.uint32], codes: NDArray[np.uint32]) -> None:
    """Inverse of `_pack_two`, into `codes`."""
    for s in range(8):
        h, t = divmod(s, 4)
        codes[..., s, :] |= ((twos[..., h, :] >> np.uint32(2 * t)) & _LOW_TWO) << _FOUR


def _pack_q(codes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """[P, B, G, 8, 16] as it is: `q` of Q8_0."""
    return codes


def _unpack_q(q: NDArray[np.uint32], codes: NDArray[np.uint32]) -> None:
    """Inverse of `_pack_q`, into `codes`."""
    codes[...] = q


_PACK_CODES = {"nib": _pack_nib, "bit": _pack_bit, "two": _pack_two, "q": _pack_q}
_UNPACK_CODES = {"nib": _unpack_nib, "bit": _unpack_bit, "two": _unpack_two, "q": _unpack_q}
