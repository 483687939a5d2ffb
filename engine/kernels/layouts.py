"""How each integer kind lies in a panel (FORMAT.md, tensor layouts), as kernels read it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.kernels.dot import DOT
from simd.code import F16, F32, I8, I16, Code, IrType, Val, vec


@dataclass(frozen=True, slots=True)
class Layout:
    """One kind: sizes in bytes, offsets inside a block, and what NUMERICS N2 says of it.

    `group_offset` and `group_bytes` place the codes of group g (32 inputs); `high` is the offset
    of the high-bit plane inside them.
    """

    kind: str
    block_inputs: int
    block_bytes: int
    bits: int
    offset: int
    has_minimum: bool
    group_offset: int
    group_bytes: int
    scale_groups: int = 1

    @property
    def groups(self) -> int:
        """Groups of 32 inputs in a block."""
        return self.block_inputs // 32


Q4_0 = Layout("Q4_0", 32, 288, 4, 8, False, 32, 256)
Q4_1 = Layout("Q4_1", 32, 320, 4, 0, True, 64, 256)
Q5_0 = Layout("Q5_0", 32, 352, 5, 16, False, 32, 320)
Q5_1 = Layout("Q5_1", 32, 384, 5, 0, True, 64, 320)
Q8_0 = Layout("Q8_0", 32, 544, 8, 128, False, 32, 512)
Q4_K = Layout("Q4_K", 256, 2368, 4, 0, True, 320, 256)
Q5_K = Layout("Q5_K", 256, 2880, 5, 0, True, 320, 320)
Q6_K = Layout("Q6_K", 256, 3360, 6, 32, False, 288, 384, scale_groups=2)

LAYOUTS = {layout.kind: layout for layout in (Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K)}


def _shift_right(value: Val, bits: int) -> Val:
    """Shift bytes right by `bits`, leaving the neighbour's bits above: the caller masks."""
    if bits == 0:
        return value
    pairs = vec(I16, value.type.count // 2)
    return (value.bitcast(pairs) >> bits).bitcast(value.type)


def _shift_left(value: Val, bits: int) -> Val:
    if bits == 0:
        return value
    pairs = vec(I16, value.type.count // 2)
    return (value.bitcast(pairs) << bits).bitcast(value.type)


def high_nibble(value: Val) -> Val:
    """Return the upper four bits of bytes."""
    return _shift_right(value, 4) & 15


@dataclass(frozen=True, slots=True)
class Lanes:
    """Rows of a panel that are worked on together: `count` of them from row `first` on."""

    count: int
    first: Val | int

    @property
    def bytes_type(self) -> IrType:
        """One step's weights: four bytes a row."""
        return vec(I8, 4 * self.count)

    @property
    def floats_type(self) -> IrType:
        """One f32 a row."""
        return vec(F32, self.count)


def parts() -> list[Lanes]:
    """Return the parts in which the path works on a panel."""
    return [Lanes(DOT.rows, part * DOT.rows) for part in range(DOT.parts)]


def codes(code: Code, layout: Layout, group: Val, step: int, lanes: Lanes) -> Val:
    """Return the unsigned codes of one step: bytes, four inputs a row.

    Args:
        code: where to emit.
        layout: the kind.
        group: address of the group's codes (block + group_offset + g * group_bytes).
        step: 0..7, inputs 4 * step onwards.
        lanes: which rows.
    """
    kind = lanes.bytes_type
    base = group + lanes.first * 4
    if layout.bits == 8:
        return code.load(kind, base + step * 64) ^ -128
    low = _shift_right(code.load(kind, base + (step // 2) * 64), 4 * (step % 2)) & 15
    if layout.bits == 4:
        return low
    if layout.bits == 5:
        plane = code.load(kind, base + 256)
        high = _shift_left(plane, 4 - step) if step < 4 else _shift_right(plane, step - 4)
        return low | (high & 0x10)
    plane = code.load(kind, base + (256 + (step // 4) * 64))
    turn = step % 4
    high = _shift_left(plane, 4 - 2 * turn) if turn < 2 else _shift_right(plane, 2 * turn - 4)
    return low | (high & 0x30)


def _halves(code: Code, address: Val, lanes: Lanes) -> Val:
    return code.load(vec(F16, lanes.count), address + lanes.first * 2).fpext(lanes.floats_type)


def _bytes(code: Code, address: Val, lanes: Lanes, *, signed: bool) -> Val:
    values = code.load(vec(I8, lanes.count), address + lanes.first)
    wide = vec(I16, lanes.count)
    return (values.sext(wide) if signed else values.zext(wide)).to_float(lanes.floats_type)


def scale(code: Code, layout: Layout, block: Val, index: Val | int, half: int, lanes: Lanes) -> Val:
    """Return s (NUMERICS N2), f32, of group `index` in the block, group of 16 `half` in it."""
    s = _halves(code, block, lanes)
    if layout.block_inputs == 32:
        return s
    group = index if isinstance(index, Val) else code.i64(index)
    if layout.scale_groups == 2:
        return s * _bytes(code, block + group * 32 + (32 + 16 * half), lanes, signed=True)
    return s * _bytes(code, block + group * 16 + 64, lanes, signed=False)


def minimum(code: Code, layout: Layout, block: Val, index: Val | int, lanes: Lanes) -> Val:
    """Return m (NUMERICS N2), f32."""
    m = _halves(code, block + 32, lanes)
    if layout.block_inputs == 32:
        return m
    group = index if isinstance(index, Val) else code.i64(index)
    return code.negate(m * _bytes(code, block + group * 16 + 192, lanes, signed=False))


GroupBody = Callable[[Val, Val, "Val | int", Val], None]


def each_group(code: Code, layout: Layout, panel: Val, inputs: Val, emit: GroupBody) -> None:
    """Emit a loop over the groups of 32 of one panel in ascending k.

    `emit(block address, codes address, group index in the block, number of the group in the row)`.
    """
    with code.loop(0, inputs // layout.block_inputs) as index:
        block = panel + index * layout.block_bytes
        if layout.groups == 1:
            emit(block, block + layout.group_offset, 0, index)
        else:
            with code.loop(0, layout.groups) as inner:
                group = block + inner * layout.group_bytes + layout.group_offset
                emit(block, group, inner, index * layout.groups + inner)
