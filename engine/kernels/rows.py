"""Operations on whole rows: embedding, RMSNorm, SwiGLU, int8 activations, the copy for the trace.

Each works on rows shared by the threads; a row is one sequential program, so its order of
operations is the written one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from engine.kernels import layouts
from engine.kernels.functions import (
    INFINITY_BITS,
    fold_integers,
    fold_sum,
    magnitude_bits,
    silu_mul,
)
from engine.kernels.layouts import LAYOUTS, Lanes
from engine.kernels.linear_float import WEIGHT_BYTES, widen
from engine.kernels.linear_integer import (
    ACTIVATION_BYTES,
    SCALE,
    SUM_FIRST_HALF,
    SUM_FLOAT,
    SUM_TIMES_8,
)
from engine.kernels.program import (
    STEP_ERRORS,
    STEP_IDS,
    STEP_OUTPUT_ROWS,
    STEP_PRIVATE,
    STEP_ROWS,
    STEP_TRACE,
    argument,
    grab,
    weights_address,
)
from simd.code import F32, F32X16, I8, I32, I32X16, I64, Code, Val, vec

# Arguments common to the row kernels.
WEIGHT, SIZE, INPUT, FLOATS, QUANTISED, ROWS, EPSILON, GATHER, SECOND = range(9)
_TINY: Final = 0x0D800000  # 2^-100


def flag_row(code: Code, step: Val, row: Val, is_bad: Val) -> None:
    """Mark a row of the step as non-finite (N12) if the i1 is set."""
    with code.when(is_bad):
        code.store(code.const(I32, 1), code.word(step, STEP_ERRORS) + row * 4, align=4)


def _quantise_block(code: Code, low: Val, high: Val, target: Val) -> Val:
    """Write one block of 32 activations (N3) and return its largest magnitude's bit pattern."""
    pair_max = code.overloaded("llvm.umax", magnitude_bits(code, low), magnitude_bits(code, high))
    largest = fold_integers(code, pair_max, "max")
    usable = (largest >= _TINY).select(largest, code.const(I32, 0))
    usable = (usable >= INFINITY_BITS).select(code.const(I32, 0), usable)
    is_zero = usable.equals(0)
    amax = is_zero.select(code.const(F32, 1.0), usable.bitcast(F32))
    a = amax / code.const(F32, 127.0)
    r = code.const(F32, 127.0) / amax
    code.store(is_zero.select(code.const(F32, 0.0), a), target + SCALE, align=4)
    sums = []
    for half, values in enumerate((low, high)):
        scaled = code.rint(values * r.splat(16))
        keep = is_zero.select(code.const(F32X16, 0.0), scaled)
        integers = keep.to_int(I32X16)
        code.store(integers.trunc(vec(I8, 16)), target + 16 * half)
        sums.append(fold_integers(code, integers, "add"))
    total = sums[0] + sums[1]
    code.store(total.to_float(F32), target + SUM_FLOAT, align=4)
    code.store(total << 3, target + SUM_TIMES_8, align=4)
    code.store(sums[0], target + SUM_FIRST_HALF, align=4)
    return largest


def _write_row(
    code: Code,
    instruction: Val,
    step: Val,
    row: Val,
    error_row: Val,
    source: Callable[[Val], tuple[Val, Val]],
) -> None:
    """Write one row as f32, as int8 activations, or both; `source(k)` gives 32 inputs."""
    size = argument(code, instruction, SIZE)
    floats, quantised = argument(code, instruction, FLOATS), argument(code, instruction, QUANTISED)
    bad = code.var(code.const(I32, 0))
    with code.loop(0, size, 32) as k:
        low, high = source(k)
        with code.when(floats.differs(0)):
            address = floats + (row * size + k) * 4
            code.store(low, address)
            code.store(high, address + 64)
        with code.when(quantised.differs(0)):
            target = quantised + (row * size + k) // 32 * ACTIVATION_BYTES
            largest = _quantise_block(code, low, high, target)
            bad.set(bad.get() | (largest >= INFINITY_BITS).zext(I32))
    flag_row(code, step, error_row, bad.get().differs(0))


def _grain(code: Code, rows: Val) -> Val:
    return (rows > 64).select(code.i64(4), code.i64(1))


def _each_row(
    code: Code,
    instruction: Val,
    step: Val,
    thread: Val,
    rows: Val,
    emit: Callable[[Val, Val], None],
) -> None:
    """Emit `emit(row, target row)` for all rows, shared by the threads.

    In a private step, which has one row, every thread computes it for itself, into the target row
    of its own number, and goes on without waiting for the others.
    """
    with code.choose(code.word(step, STEP_PRIVATE).differs(0)) as (private, shared):
        with private, code.loop(0, rows) as row:
            emit(row, thread)
        with shared, grab(code, instruction, rows, _grain(code, rows)) as (begin, end):
            with code.loop(begin, end) as row:
                emit(row, row)


def emit_norm(code: Code, instruction: Val, step: Val, thread: Val) -> None:
    """RMSNorm of rows (N8), all or those that GATHER lists, into f32 and int8."""
    size, weight = argument(code, instruction, SIZE), weights_address(code, instruction, step)
    rows = code.word(step + argument(code, instruction, ROWS) * 8, 0)
    gather, x = argument(code, instruction, GATHER), argument(code, instruction, INPUT)

    def emit(row: Val, target: Val) -> None:
        source_row = code.var(row)
        with code.when(gather.differs(0)):
            listed = code.load(I32, code.word(step, STEP_OUTPUT_ROWS) + row * 4, align=4)
            source_row.set(listed.sext(I64))
        start = x + source_row.get() * size * 4
        sums = code.var(code.const(F32X16, 0.0))
        with code.loop(0, size, 16) as k:
            values = code.load(F32X16, start + k * 4)
            sums.set(sums.get() + values * values)
        epsilon = argument(code, instruction, EPSILON).trunc(I32).bitcast(F32)
        mean = fold_sum(code, sums.get()) / size.to_float(F32)
        r = (code.const(F32, 1.0) / code.sqrt(mean + epsilon)).splat(16)

        def normalised(k: Val) -> tuple[Val, Val]:
            low, high = k * 4, k * 4 + 64
            return (
                (code.load(F32X16, start + low) * r) * code.load(F32X16, weight + low),
                (code.load(F32X16, start + high) * r) * code.load(F32X16, weight + high),
            )

        _write_row(code, instruction, step, target, source_row.get(), normalised)

    _each_row(code, instruction, step, thread, rows, emit)


def emit_quantise(code: Code, instruction: Val, step: Val, thread: Val) -> None:
    """Int8 activations of f32 rows (N3)."""
    size, x = argument(code, instruction, SIZE), argument(code, instruction, INPUT)

    def emit(row: Val, target: Val) -> None:
        def loaded(k: Val) -> tuple[Val, Val]:
            address = x + (row * size + k) * 4
            return code.load(F32X16, address), code.load(F32X16, address + 64)

        _write_row(code, instruction, step, target, row, loaded)

    _each_row(code, instruction, step, thread, code.word(step, STEP_ROWS), emit)


def emit_silu_mul(code: Code, instruction: Val, step: Val, thread: Val) -> None:
    """SwiGLU's product of gate and up (N6), into f32 and int8."""
    size, gate = argument(code, instruction, SIZE), argument(code, instruction, INPUT)
    up = argument(code, instruction, SECOND)

    def emit(row: Val, target: Val) -> None:
        def product(k: Val) -> tuple[Val, Val]:
            low = (row * size + k) * 4
            high = low + 64
            return (
                silu_mul(code, code.load(F32X16, gate + low), code.load(F32X16, up + low)),
                silu_mul(code, code.load(F32X16, gate + high), code.load(F32X16, up + high)),
            )

        _write_row(code, instruction, step, target, row, product)

    _each_row(code, instruction, step, thread, code.word(step, STEP_ROWS), emit)


def emit_snapshot(code: Code, instruction: Val, step: Val, _thread: Val) -> None:
    """Check that residual rows are finite and copy them for the trace, if one is kept.

    Arguments: layer, row size, residual. The trace buffer is f32[layers + 1, rows, size].
    """
    layer, size = argument(code, instruction, 0), argument(code, instruction, 1)
    x, trace = argument(code, instruction, 2), code.word(step, STEP_TRACE)
    rows = code.word(step, STEP_ROWS)
    with grab(code, instruction, rows, _grain(code, rows)) as (begin, end):
        with code.loop(begin, end) as row:
            source = x + row * size * 4
            target = trace + (layer * rows + row) * size * 4
            largest = code.var(code.const(I32X16, 0))
            with code.loop(0, size, 16) as k:
                values = code.load(F32X16, source + k * 4)
                bits = magnitude_bits(code, values)
                largest.set(code.overloaded("llvm.umax", largest.get(), bits))
                with code.when(trace.differs(0)):
                    code.store(values, target + k * 4)
            worst = fold_integers(code, largest.get(), "max")
            flag_row(code, step, row, worst >= INFINITY_BITS)


def emit_embed(code: Code, kind: str, instruction: Val, step: Val, _thread: Val) -> None:
    """Copy one embedding row (N2) a position. Arguments: table, row size, residual."""
    table, size = weights_address(code, instruction, step), argument(code, instruction, 1)
    x, ids = argument(code, instruction, 2), code.word(step, STEP_IDS)
    rows = code.word(step, STEP_ROWS)
    with grab(code, instruction, rows, _grain(code, rows)) as (begin, end):
        with code.loop(begin, end) as row:
            token = code.load(I32, ids + row * 4, align=4).sext(I64)
            panel, lane = token // 16, token % 16
            target = x + row * size * 4
            if kind in WEIGHT_BYTES:
                width = WEIGHT_BYTES[kind]
                start = table + panel * size * (16 * width) + lane * width
                with code.loop(0, size) as k:
                    value = widen(code, kind, start + k * (16 * width), lanes=1)
                    code.store(value.lane(0), target + k * 4, align=4)
            else:
                _embed_integer(code, kind, table, size, panel, lane, target)


def _embed_integer(
    code: Code, kind: str, table: Val, size: Val, panel: Val, lane: Val, target: Val
) -> None:
    layout, lanes = LAYOUTS[kind], Lanes(1, lane)
    start = table + panel * ((size // layout.block_inputs) * layout.block_bytes)
    four = vec(F32, 4)

    def group(block: Val, codes: Val, index: Val | int, number: Val) -> None:
        per_half = 8 // layout.scale_groups
        for half in range(layout.scale_groups):
            s = layouts.scale(code, layout, block, index, half, lanes).lane(0).splat(4)
            for step in range(half * per_half, (half + 1) * per_half):
                unsigned = layouts.codes(code, layout, codes, step, lanes).zext(vec(I32, 4))
                value = (unsigned - layout.offset).to_float(four) * s
                if layout.has_minimum:
                    m = layouts.minimum(code, layout, block, index, lanes).lane(0).splat(4)
                    value = value + m
                code.store(value, target + number * 128 + 16 * step)

    layouts.each_group(code, layout, start, size, group)
