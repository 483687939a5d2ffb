"""Linear layers of the float kinds (NUMERICS N5): a lane is one output row, k ascending."""

from __future__ import annotations

from typing import Final

from engine.kernels.linear_integer import (
    ACTIVATIONS,
    ADD,
    BIAS,
    GRAIN,
    INPUTS,
    OUTPUT,
    OUTPUT_STRIDE,
    PANELS,
    ROWS,
    own_row,
)
from engine.kernels.program import argument, grab, weights_address
from simd.code import F16, F32, F32X16, I16, I32X16, Code, Val, vec

_ROWS_IN_TILE: Final = 4
WEIGHT_BYTES: Final = {"F32": 4, "F16": 2, "BF16": 2}


def widen(code: Code, kind: str, address: Val, lanes: int = 16) -> Val:
    """Read `lanes` weights of a float kind as f32, exactly."""
    if kind == "F32":
        return code.load(vec(F32, lanes), address)
    if kind == "F16":
        return code.load(vec(F16, lanes), address).fpext(vec(F32, lanes))
    integers = vec(I32X16.element, lanes)
    return (code.load(vec(I16, lanes), address).zext(integers) << 16).bitcast(vec(F32, lanes))


def _tile(
    code: Code,
    kind: str,
    instruction: Val,
    panel_address: Val,
    activations: Val,
    rows: int,
    first: Val,
    panel: Val,
) -> None:
    inputs = argument(code, instruction, INPUTS)
    start = activations + first * (inputs * 4)
    sums = [code.var(code.const(F32X16, 0.0)) for _ in range(rows)]
    with code.loop(0, inputs) as k:
        weights = widen(code, kind, panel_address + k * (16 * WEIGHT_BYTES[kind]))
        for row, total in enumerate(sums):
            x = code.load(F32, start + inputs * (4 * row) + k * 4).splat(16)
            total.set(total.get() + weights * x)
    output, stride = argument(code, instruction, OUTPUT), argument(code, instruction, OUTPUT_STRIDE)
    bias, add = argument(code, instruction, BIAS), argument(code, instruction, ADD)
    for row, total in enumerate(sums):
        with code.when(bias.differs(0)):
            total.set(total.get() + code.load(F32X16, bias + panel * 64))
        address = output + (first + row) * stride + panel * 64
        with code.when(add.differs(0)):
            total.set(code.load(F32X16, address) + total.get())
        code.store(total.get(), address)


def emit_linear(code: Code, kind: str, instruction: Val, step: Val, thread: Val) -> None:
    """Emit the kernel of one float kind; arguments as in `linear_integer`, activations f32."""
    weights = weights_address(code, instruction, step)
    rows = code.word(step + argument(code, instruction, ROWS) * 8, 0)
    panels, inputs = argument(code, instruction, PANELS), argument(code, instruction, INPUTS)
    panel_bytes = inputs * (16 * WEIGHT_BYTES[kind])
    activations = argument(code, instruction, ACTIVATIONS)
    activations = activations + own_row(code, step, thread, inputs * 4)
    with grab(code, instruction, panels, argument(code, instruction, GRAIN)) as (begin, end):
        with code.loop(begin, end) as panel:
            address = weights + panel * panel_bytes
            full = (rows // _ROWS_IN_TILE) * _ROWS_IN_TILE
            with code.loop(0, full, _ROWS_IN_TILE) as first:
                _tile(code, kind, instruction, address, activations, _ROWS_IN_TILE, first, panel)
            with code.loop(full, rows) as first:
                _tile(code, kind, instruction, address, activations, 1, first, panel)
