"""The vocabulary of model files: each method appends kernel instructions to a program.

Activations are buffers of this object, sized for the largest step. A row of f32 is contiguous;
where a value feeds a layer of an integer kind it is also kept as int8 activations (NUMERICS N3),
where it feeds a float kind as f32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engine.config import ModelConfig
from engine.errors import UnsupportedError, WeightsError
from engine.kernels import attention_tile, ops
from engine.kernels.build import Kernel
from engine.kernels.layouts import LAYOUTS
from engine.kernels.linear_integer import ACTIVATION_BYTES, scratch_group_bytes
from engine.kernels.program import (
    ALWAYS,
    NEVER,
    STEP_NUM_OUTPUTS,
    STEP_ROWS,
    UNLESS_PRIVATE,
    Program,
)
from engine.memory.buffers import address_of, aligned_bytes
from engine.memory.weights import PlacedTensor, Weights
from engine.memory.windows import NO_WINDOW, Cutter, PanelRange
from engine.models.stages import Plan, Stage
from engine.vqf.kinds import PANEL_ROWS
from engine.vqf.panels import packed_bytes

_LAYER_GRAIN: Final = 4
_HEAD_GRAIN: Final = 16


@dataclass(frozen=True, slots=True)
class Rows:
    """A value of some rows: `size` floats each; an address of 0 says that a form is not kept."""

    size: int
    floats: int
    quantised: int


class Graph:
    """A program under construction for one model."""

    def __init__(
        self,
        weights: Weights,
        *,
        layer_bytes: int,
        single_cache: bool,
        num_threads: int,
        max_rows: int,
        max_outputs: int,
        max_positions: int,
        window_bytes: int | None = None,
    ) -> None:
        """Allocate activations.

        Args:
            weights: the model's weights.
            layer_bytes: size of one layer in a cache block.
            single_cache: whether keys and values are f32 (profile `wh1-float`).
            num_threads: threads that will execute the program.
            max_rows: largest number of positions in a step.
            max_outputs: largest number of positions in a step whose logits are wanted.
            max_positions: longest sequence.
            window_bytes: most bytes of matrices that are there at once; None: all are.

        Raises:
            UnsupportedError: a dimension that the kernels cannot work on.
        """
        self.config: ModelConfig = weights.config
        self.program = Program()
        self._cutter = None if window_bytes is None else Cutter(window_bytes)
        self._plan = Plan()
        self._weights = weights
        self._layer_bytes = layer_bytes
        self._single_cache = single_cache
        # In a private step each thread has an activation row of its own.
        self._max_rows = max(max_rows, num_threads)
        self._max_outputs = max_outputs
        self._memory: list[NDArray[np.uint8]] = []
        self._check_dimensions()
        config = self.config
        kinds = {t.kind for t in self._matrices()}
        integers, floats = bool(kinds & LAYOUTS.keys()), bool(kinds - LAYOUTS.keys())
        residual = self._reserve_array(self._max_rows * config.hidden_size * 4)
        self.residual = Rows(config.hidden_size, address_of(residual), 0)
        self.states = residual.view(np.float32).reshape(self._max_rows, config.hidden_size)
        self._frequencies = np.array(config.rope_inv_freq_bits, np.uint64)
        self._table = self._reserve(max_rows * len(self._frequencies) * 8)
        self._normed = self._new_rows(config.hidden_size, floats=floats, quantised=integers)
        width = config.num_heads * config.head_dim
        self._attended = self._new_rows(width, floats=True, quantised=integers)
        self._gated = self._new_rows(config.intermediate_size, floats=floats, quantised=integers)
        self._slots: dict[int, list[Rows]] = {}
        self._unpack_bytes = self._largest_scratch()
        self._unpacked = self._reserve(num_threads * self._unpack_bytes)
        self._attention_bytes = (
            -(-attention_tile.scratch_bytes(config.head_dim, max_positions) // 4096) * 4096
        )
        self._attention_scratch = self._reserve(num_threads * self._attention_bytes)
        padded_vocab = -(-config.vocab_size // 16) * 16
        logits = self._reserve_array(max_outputs * padded_vocab * 4)
        self.logits = logits.view(np.float32).reshape(max_outputs, padded_vocab)[
            :, : config.vocab_size
        ]

    def _check_dimensions(self) -> None:
        config = self.config
        for name, value, multiple in (
            ("hidden size", config.hidden_size, 32),
            ("intermediate size", config.intermediate_size, 32),
            ("head dimension", config.head_dim, 16),
            ("attention width", config.num_heads * config.head_dim, 32),
            ("rotated pairs", len(config.rope_inv_freq_bits), 8),
        ):
            if value % multiple:
                raise UnsupportedError(f"{name} {value} is not a multiple of {multiple}")
        shared = config.num_heads // config.num_kv_heads
        if shared > attention_tile.MAX_QUERIES:
            raise UnsupportedError(f"{shared} query heads share one key/value head; at most 16 may")

    def _reserve_array(self, size_bytes: int) -> NDArray[np.uint8]:
        memory = aligned_bytes(size_bytes)
        self._memory.append(memory)
        return memory

    def _reserve(self, size_bytes: int) -> int:
        return address_of(self._reserve_array(size_bytes))

    def _new_rows(self, size: int, *, floats: bool, quantised: bool) -> Rows:
        return Rows(
            size,
            self._reserve(self._max_rows * size * 4) if floats else 0,
            self._reserve(self._max_rows * size // 32 * ACTIVATION_BYTES) if quantised else 0,
        )

    def _matrices(self) -> list[PlacedTensor]:
        names = ["embedding", "head"]
        parts = ("q", "k", "v", "o", "gate", "up", "down")
        names += [f"layers.{n}.{p}" for n in range(self.config.num_layers) for p in parts]
        return [t for t in map(self._weights.find, names) if t is not None]

    def _largest_scratch(self) -> int:
        sizes = [
            t.shape[1] // 32 * scratch_group_bytes(LAYOUTS[t.kind])
            for t in self._matrices()
            if t.kind in LAYOUTS
        ]
        return -(-max(sizes, default=0) // 4096) * 4096 + 4096

    def _tensor(self, name: str) -> PlacedTensor:
        tensor = self._weights.find(name)
        if tensor is None:
            raise WeightsError(f"the weights hold no tensor {name}")
        return tensor

    def _vector_address(self, name: str) -> int:
        tensor = self._weights.find(name)
        return 0 if tensor is None else int(self._weights.bases[tensor.base]) + tensor.offset_bytes

    def stages(self) -> list[Stage]:
        """Return the parts of the program, each with the window that it needs."""
        windows = () if self._cutter is None else self._cutter.windows
        return self._plan.stages(len(self.program), windows)

    def _add(
        self, kernel: Kernel, tensor: PlacedTensor | None, *arguments: int, barrier: int = ALWAYS
    ) -> None:
        if tensor is None:
            self.program.add(kernel, *arguments, barrier=barrier)
        else:
            self.program.add(
                kernel, tensor.offset_bytes, *arguments, base=tensor.base, barrier=barrier
            )

    def rope_table(self) -> None:
        """Compute the step's cosines and sines."""
        arguments = (address_of(self._frequencies), len(self._frequencies), self._table)
        self._add(ops.rope_table, None, *arguments, barrier=NEVER)

    def embed(self, name: str) -> Rows:
        """Fill the residual stream with embedding rows."""
        table, x = self._tensor(name), self.residual
        self._add(ops.EMBED[table.kind], table, x.size, x.floats)
        return x

    def layer_starts(self, layer: int) -> None:
        """Say that what follows is of this layer."""
        self._plan.starts_layer(len(self.program), layer)

    def snapshot(self, layer: int, x: Rows) -> None:
        """Check that x is finite, and keep it or its hashes for the trace as x(t, layer)."""
        self._add(ops.snapshot, None, layer, x.size, x.floats, barrier=NEVER)
        self._add(ops.hash_leaves, None, layer, x.size, x.floats, barrier=NEVER)

    def rms_norm(self, x: Rows, name: str, *, outputs_only: bool = False) -> Rows:
        """RMSNorm with the named weight, of all rows or of those whose logits are wanted."""
        h = self._normed
        rows = STEP_NUM_OUTPUTS if outputs_only else STEP_ROWS
        arguments = (x.size, x.floats, h.floats, h.quantised, rows, self.config.norm_eps_bits)
        self._add(
            ops.norm, self._tensor(name), *arguments, int(outputs_only), barrier=UNLESS_PRIVATE
        )
        return h

    def _linear(
        self,
        x: Rows,
        name: str,
        output: int,
        stride: int,
        *,
        barrier: int = ALWAYS,
        add: bool = False,
        rows: int = STEP_ROWS,
        grain: int = _LAYER_GRAIN,
    ) -> None:
        tensor = self._tensor(name)
        num_inputs = tensor.shape[1]
        if num_inputs != x.size:
            raise WeightsError(f"{name} takes {num_inputs} inputs, not {x.size}")
        panel_bytes = packed_bytes(tensor.kind, PANEL_ROWS, num_inputs)
        bias = self._vector_address(name + "_bias")
        ranges = self._ranges(tensor, panel_bytes)
        for part in ranges:
            self._plan.needs(len(self.program), part.window)
            self.program.add(
                ops.LINEAR[tensor.kind],
                tensor.offset_bytes + part.first * panel_bytes,
                num_inputs,
                part.num_panels,
                x.quantised if tensor.kind in LAYOUTS else x.floats,
                output + part.first * PANEL_ROWS * 4,
                stride,
                bias and bias + part.first * PANEL_ROWS * 4,
                int(add),
                self._unpacked,
                self._unpack_bytes,
                grain,
                rows,
                base=tensor.base,
                barrier=barrier if part is ranges[-1] else NEVER,
            )

    def _ranges(self, tensor: PlacedTensor, panel_bytes: int) -> list[PanelRange]:
        """Return the panels of a matrix by the window that they are in."""
        if self._cutter is None:
            return [PanelRange(0, -(-tensor.shape[0] // PANEL_ROWS), NO_WINDOW)]
        return list(self._cutter.cut(tensor, panel_bytes))

    def linear_each(self, x: Rows, names: Sequence[str]) -> list[Rows]:
        """Apply several layers to the same rows; the results have buffers of their own."""
        slots = self._slots.setdefault(len(names), [])
        results = []
        for index, name in enumerate(names):
            size = self._tensor(name).shape[0]
            if len(slots) <= index:
                slots.append(self._new_rows(size, floats=True, quantised=False))
            result = slots[index]
            last = index == len(names) - 1
            self._linear(x, name, result.floats, size * 4, barrier=ALWAYS if last else NEVER)
            results.append(result)
        return results

    def add_linear(self, x: Rows, h: Rows, name: str) -> None:
        """Add linear(h) to x."""
        self._linear(h, name, x.floats, x.size * 4, add=True)

    def attention(self, layer: int, q: Rows, k: Rows, v: Rows, *, q_norm: str, k_norm: str) -> Rows:
        """Rotate, store in the cache, attend; the norms are applied where the model has them."""
        config, o = self.config, self._attended
        rotate, attend = ops.rotate, ops.attention
        if self._single_cache:
            rotate, attend = ops.rotate_single, ops.attention_single
        layer_offset = layer * self._layer_bytes
        self._add(
            rotate,
            None,
            q.floats,
            k.floats,
            v.floats,
            config.num_heads,
            config.num_kv_heads,
            config.head_dim,
            len(self._frequencies),
            self._table,
            layer_offset,
            self._vector_address(q_norm),
            self._vector_address(k_norm),
            config.norm_eps_bits,
            q.size * 4,
            k.size * 4,
            v.size * 4,
        )
        self._add(
            attend,
            None,
            q.floats,
            o.floats,
            config.num_kv_heads,
            config.num_heads // config.num_kv_heads,
            config.head_dim,
            layer_offset,
            self._attention_scratch,
            self._attention_bytes,
            o.size * 4,
        )
        # Floats are copied onto themselves, but in a private step into each thread's own row.
        floats = o.floats if self._normed.floats else 0
        arguments = (o.size, o.floats, floats, o.quantised, STEP_ROWS)
        self._add(ops.quantise, None, 0, *arguments, barrier=UNLESS_PRIVATE)
        return o

    def silu_mul(self, gate: Rows, up: Rows) -> Rows:
        """Return silu(gate) * up."""
        h = self._gated
        arguments = (0, h.size, gate.floats, h.floats, h.quantised, STEP_ROWS, 0, 0, up.floats)
        self._add(ops.silu_mul, None, *arguments, barrier=UNLESS_PRIVATE)
        return h

    def head(self, h: Rows, name: str) -> None:
        """Compute logits of the rows that want them."""
        self._plan.starts_head(len(self.program))
        self._linear(
            h,
            name,
            address_of(self.logits),
            self.logits.strides[0],
            rows=STEP_NUM_OUTPUTS,
            grain=_HEAD_GRAIN,
        )
