"""Linear layers of the integer kinds (NUMERICS N4): a lane is one output row.

One row of activations goes straight through the packed weights; several rows first unpack a panel
once into bytes and f32 scales, in the nearest cache, and then pass over it in tiles. Both do the
same operations in the same order.

Activations (written by `engine.kernels.rows`) are blocks of 48 bytes: int8[32], a, float(S)
(f32), 8 * S (int32), and S of the first 16 inputs (int32).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from engine.kernels import layouts
from engine.kernels.dot import DOT
from engine.kernels.layouts import Layout
from engine.kernels.program import (
    STEP_PRIVATE,
    argument,
    grab,
    grab_ahead,
    weights_address,
)
from simd.code import F32, I32, Code, Val, Var, vec

ACTIVATION_BYTES: Final = 48
SCALE, SUM_FLOAT, SUM_TIMES_8, SUM_FIRST_HALF = 32, 36, 40, 44

_LANES = vec(F32, DOT.rows)
PARTS: Final = layouts.parts()
_PREFETCH_BYTES: Final = 2048  # hardware prefetchers stop at page boundaries; a panel crosses many
_TILE_ROWS: Final = 8 if DOT.rows == 16 else 4

# Arguments of an instruction: weights, then
(
    INPUTS,
    PANELS,
    ACTIVATIONS,
    OUTPUT,
    OUTPUT_STRIDE,
    BIAS,
    ADD,
    SCRATCH,
    SCRATCH_STRIDE,
    GRAIN,
    ROWS,
) = range(1, 12)

CodesOf = Callable[[int, int], Val]
ScaleOf = Callable[[int, int], Val]
MinimumOf = Callable[[int], Val]


def _exact_sums(
    code: Code, bits: int, steps: range, codes_of: CodesOf, blocks: list[Val]
) -> list[list[Val]]:
    """Return int32 sums [activation row][part] of unsigned codes times activations over `steps`."""
    parts = range(DOT.parts)
    totals: list[list[Val | None]] = [[None] * DOT.parts for _ in blocks]
    running: list[list[Val | None]] = [[None] * DOT.parts for _ in blocks]
    limit = DOT.steps_per_flush(bits)
    for number, step in enumerate(steps):
        weights = [codes_of(step, part) for part in parts]
        for row, block in enumerate(blocks):
            inputs = code.load(I32, block + 4 * step)
            for part in parts:
                running[row][part] = DOT.add(code, running[row][part], weights[part], inputs)
        if (number + 1) % limit == 0 or number + 1 == len(steps):
            for row in range(len(blocks)):
                for part in parts:
                    value = running[row][part]
                    if value is not None:
                        flushed = DOT.flush(code, value)
                        before = totals[row][part]
                        totals[row][part] = flushed if before is None else before + flushed
                    running[row][part] = None
    return [[t for t in row if t is not None] for row in totals]


def _products(
    code: Code, layout: Layout, steps: range, codes_of: CodesOf, blocks: list[Val]
) -> list[list[Val]]:
    """Return the sums of unsigned codes; eight-bit codes as two halves where the path needs it."""
    if layout.bits != 8 or not DOT.splits_bytes:
        return _exact_sums(code, layout.bits, steps, codes_of, blocks)
    low = _exact_sums(code, 4, steps, lambda s, p: codes_of(s, p) & 15, blocks)
    high = _exact_sums(code, 4, steps, lambda s, p: layouts.high_nibble(codes_of(s, p)), blocks)
    return [
        [(h << 4) + x for h, x in zip(high_row, low_row, strict=True)]
        for high_row, low_row in zip(high, low, strict=True)
    ]


def _offset_times_sum(code: Code, layout: Layout, block: Val, half: int) -> Val:
    """Return offset * S of the group, in every lane."""
    if layout.scale_groups == 1:
        times_8 = code.load(I32, block + SUM_TIMES_8).splat(DOT.rows)
        return times_8 << (layout.offset.bit_length() - 4) if layout.offset > 8 else times_8
    first = code.load(I32, block + SUM_FIRST_HALF) << 5
    if half == 0:
        return first.splat(DOT.rows)
    return ((code.load(I32, block + SUM_TIMES_8) << 2) - first).splat(DOT.rows)


def _group(
    code: Code,
    layout: Layout,
    sources: tuple[CodesOf, ScaleOf, MinimumOf],
    blocks: list[Val],
    sums: list[list[Var]],
) -> None:
    """Emit one group of 32 inputs for several activation rows (N4)."""
    codes_of, scale_of, minimum_of = sources
    steps_each = 8 // layout.scale_groups
    for half in range(layout.scale_groups):
        steps = range(half * steps_each, (half + 1) * steps_each)
        products = _products(code, layout, steps, codes_of, blocks)
        scales = [scale_of(half, part) for part in range(DOT.parts)]
        minima = [minimum_of(part) for part in range(DOT.parts)] if layout.has_minimum else []
        for row, block in enumerate(blocks):
            a = code.load(F32, block + SCALE).splat(DOT.rows)
            exact = products[row]
            if layout.offset:
                correction = _offset_times_sum(code, layout, block, half)
                exact = [total - correction for total in exact]
            for part, total in enumerate(sums[row]):
                product = exact[part].to_float(_LANES) * (scales[part] * a)
                total.set(total.get() + product)
            if layout.has_minimum:
                sum_float = code.load(F32, block + SUM_FLOAT).splat(DOT.rows)
                for part, total in enumerate(sums[row]):
                    total.set(total.get() + sum_float * (minima[part] * a))


def _new_sums(code: Code, rows: int) -> list[list[Var]]:
    return [[code.var(code.const(_LANES, 0.0)) for _ in range(DOT.parts)] for _ in range(rows)]


def _store(code: Code, instruction: Val, sums: list[list[Var]], first_row: Val, panel: Val) -> None:
    """Write finished sums: bias last, then into the output or onto the residual there."""
    output, stride = argument(code, instruction, OUTPUT), argument(code, instruction, OUTPUT_STRIDE)
    bias, add = argument(code, instruction, BIAS), argument(code, instruction, ADD)
    with code.when(bias.differs(0)):
        for row_sums in sums:
            for part, total in enumerate(row_sums):
                address = bias + panel * 64 + part * 4 * DOT.rows
                total.set(total.get() + code.load(_LANES, address))
    for row, row_sums in enumerate(sums):
        for part, total in enumerate(row_sums):
            address = output + (first_row + row) * stride + panel * 64 + part * 4 * DOT.rows
            with code.when(add.differs(0)):
                total.set(code.load(_LANES, address) + total.get())
            code.store(total.get(), address)


def own_row(code: Code, step: Val, thread: Val, row_bytes: Val) -> Val:
    """Return the offset of the only activation row: in a private step each thread has its own."""
    return code.word(step, STEP_PRIVATE) * thread * row_bytes


def _one_row(
    code: Code, layout: Layout, instruction: Val, weights: Val, activations: Val, panel: Val
) -> None:
    """Emit one panel for a single activation row, straight from the packed weights."""
    inputs = argument(code, instruction, INPUTS)
    panel_bytes = (inputs // layout.block_inputs) * layout.block_bytes
    sums = _new_sums(code, 1)

    def group(block: Val, codes: Val, index: Val | int, number: Val) -> None:
        for line in range(0, layout.group_bytes + layout.group_offset // layout.groups, 64):
            code.prefetch(codes + (_PREFETCH_BYTES + line))
        _group(
            code,
            layout,
            (
                lambda step, part: layouts.codes(code, layout, codes, step, PARTS[part]),
                lambda half, part: layouts.scale(code, layout, block, index, half, PARTS[part]),
                lambda part: layouts.minimum(code, layout, block, index, PARTS[part]),
            ),
            [activations + number * ACTIVATION_BYTES],
            sums,
        )

    layouts.each_group(code, layout, weights + panel * panel_bytes, inputs, group)
    _store(code, instruction, sums, code.i64(0), panel)


def scratch_group_bytes(layout: Layout) -> int:
    """Return the size of one unpacked group: 512 codes, the scales and the minima."""
    return 512 + 64 * (layout.scale_groups + int(layout.has_minimum))


def _unpack(code: Code, layout: Layout, panel: Val, inputs: Val, scratch: Val) -> None:
    """Emit the unpacking of one panel into `scratch`."""
    size = 4 * DOT.rows

    def group(block: Val, codes: Val, index: Val | int, number: Val) -> None:
        target = scratch + number * scratch_group_bytes(layout)
        for part in range(DOT.parts):
            for step in range(8):
                value = layouts.codes(code, layout, codes, step, PARTS[part])
                code.store(value, target + (step * 64 + part * size))
            for half in range(layout.scale_groups):
                value = layouts.scale(code, layout, block, index, half, PARTS[part])
                code.store(value, target + (512 + 64 * half + part * size))
            if layout.has_minimum:
                value = layouts.minimum(code, layout, block, index, PARTS[part])
                code.store(value, target + (576 + part * size))

    layouts.each_group(code, layout, panel, inputs, group)


def _tile(
    code: Code,
    layout: Layout,
    instruction: Val,
    scratch: Val,
    rows: int,
    first: Val,
    panel: Val,
    following: Val,
) -> None:
    """Emit `rows` activation rows against one unpacked panel.

    The first rows ask for the packed panel that is unpacked next: memory is then read while this
    one is computed with.
    """
    inputs = argument(code, instruction, INPUTS)
    num_groups = inputs // 32
    row_bytes = num_groups * ACTIVATION_BYTES
    start = argument(code, instruction, ACTIVATIONS) + first * row_bytes
    sums = _new_sums(code, rows)
    size = 4 * DOT.rows
    group_bytes = layout.block_bytes // layout.groups
    stride = first.equals(0).select(code.i64(group_bytes), code.i64(0))
    with code.loop(0, num_groups) as number:
        for line in range(0, group_bytes, 64):
            code.prefetch(following + (number * stride + line))
        group = scratch + number * scratch_group_bytes(layout)
        offset = number * ACTIVATION_BYTES
        _group(
            code,
            layout,
            (
                lambda step, part: code.load(DOT.weights_type, group + (step * 64 + part * size)),
                lambda half, part: code.load(_LANES, group + (512 + 64 * half + part * size)),
                lambda part: code.load(_LANES, group + (576 + part * size)),
            ),
            [start + row_bytes * row + offset for row in range(rows)],
            sums,
        )
    _store(code, instruction, sums, first, panel)


def _rows_in_tiles(
    code: Code,
    layout: Layout,
    instruction: Val,
    scratch: Val,
    rows: Val,
    panel: Val,
    following: Val,
) -> None:
    """Emit all rows: full tiles, then halves of a tile."""
    done = code.var(code.i64(0))
    tile = _TILE_ROWS
    while tile:
        start = done.get()
        stop = start + ((rows - start) // tile) * tile
        with code.loop(start, stop, tile) as first:
            _tile(code, layout, instruction, scratch, tile, first, panel, following)
        done.set(stop)
        tile //= 2


def emit_linear(code: Code, layout: Layout, instruction: Val, step: Val, thread: Val) -> None:
    """Emit the kernel of one kind: all rows of the step, panels shared by the threads."""
    weights = weights_address(code, instruction, step)
    rows_word = argument(code, instruction, ROWS)
    rows = code.word(step + rows_word * 8, 0)
    panels, inputs = argument(code, instruction, PANELS), argument(code, instruction, INPUTS)
    grain = argument(code, instruction, GRAIN)
    scratch = argument(code, instruction, SCRATCH) + thread * argument(
        code, instruction, SCRATCH_STRIDE
    )
    panel_bytes = (inputs // layout.block_inputs) * layout.block_bytes
    activations = argument(code, instruction, ACTIVATIONS)
    activations = activations + own_row(code, step, thread, inputs // 32 * ACTIVATION_BYTES)
    with code.choose(rows.equals(1)) as (one, several):
        with one, grab(code, instruction, panels, grain) as (first, last):
            with code.loop(first, last) as panel:
                _one_row(code, layout, instruction, weights, activations, panel)
        with several, grab_ahead(code, instruction, panels) as (panel, after):
            following = weights + after * panel_bytes
            _unpack(code, layout, weights + panel * panel_bytes, inputs, scratch)
            _rows_in_tiles(code, layout, instruction, scratch, rows, panel, following)
