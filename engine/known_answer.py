"""Known answers: what the kernels of this machine have to compute before anybody is answered.

A model of two small layers, made of the numbers of a generator, answers two requests that share
steps, in chunks, with every part of sampling. Trace roots and ids are compared with committed ones,
one entry for each family and kind of matrix; tests hold these to the definition
(`engine.reference`). They are bits of profile `wh1`: the same on every kernel path.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.config import ModelConfig
from engine.errors import WrongAnswerError
from engine.memory.buffers import address_of, aligned_bytes
from engine.memory.weights import PlacedTensor
from engine.reference.weights import FLOAT_KINDS, Weight
from engine.sampling.parameters import SamplingParameters
from engine.sequence import Request
from engine.vqf import panels
from engine.vqf.families import DECODERS, required_extents

MAX_ROWS: Final = 96
_PREFILL_TOKENS: Final = 67
_ONE_BITS: Final = 1023 << 52  # of binary64, whose exponent begins at bit 52
_CONFIG: Final = ModelConfig(
    architecture="llama",
    num_layers=2,
    hidden_size=256,
    num_heads=8,
    num_kv_heads=2,
    head_dim=32,
    intermediate_size=256,
    vocab_size=250,
    context_length_tokens=256,
    norm_eps_bits=0x3727C5AC,
    rope_inv_freq_bits=tuple(_ONE_BITS - (i << 51) for i in range(16)),
    tied_embeddings=True,
    attention_bias=False,
    qk_norm=False,
)
_DRAWN: Final = SamplingParameters(
    seed=20_230_614,
    temperature_millionths=800_000,
    top_k=40,
    top_p_millionths=950_000,
    min_p_millionths=20_000,
    repetition_penalty_millionths=1_100_000,
    presence_penalty_millionths=250_000,
    frequency_penalty_millionths=125_000,
    logit_bias_millionths=((7, 500_000), (100, -2_000_000)),
    logprobs=3,
)
REQUESTS: Final = (
    Request(tuple(37 * i % 250 for i in range(131)), 9, _DRAWN),
    Request((249, 0, 17), 5, SamplingParameters(temperature_millionths=0)),
)
"""One is longer than two cache blocks and outlives the other."""


class KnownAnswer(NamedTuple):
    """What the requests give: trace root and output ids of each."""

    trace_roots: tuple[str, ...]
    output_ids: tuple[tuple[int, ...], ...]


def config_of(architecture: str) -> ModelConfig:
    """Return the small model of a family."""
    return replace(
        _CONFIG,
        architecture=architecture,
        attention_bias=architecture == "qwen2",
        qk_norm=architecture == "qwen3",
    )


def weights_of(config: ModelConfig, kind: str) -> dict[str, Weight]:
    """Return its weights, all matrices of one kind."""
    weights = {}
    for extent in required_extents(config):
        for tensor in extent.tensors:
            draw = _Numbers(zlib.crc32(f"{kind} {tensor.name}".encode()))
            if len(tensor.shape) == 1:
                w = draw.floats(tensor.shape, 0.25)
                middle = np.float32(1 if "norm" in tensor.name else 0)
                weights[tensor.name] = Weight("F32", {"w": w + middle})
            else:
                weights[tensor.name] = Weight(kind, _fields(draw, kind, *tensor.shape))
    return weights


@cache
def committed() -> Mapping[str, KnownAnswer]:
    """Return the committed answers by `family/kind`."""
    text = resources.files("engine").joinpath("data/known_answers.json").read_text("ascii")
    return {
        name: KnownAnswer(
            tuple(entry["trace_roots"]), tuple(tuple(ids) for ids in entry["output_ids"])
        )
        for name, entry in json.loads(text).items()
    }


def compute(architecture: str, kind: str, *, num_threads: int) -> KnownAnswer:
    """Answer the requests with the kernels.

    Raises:
        EngineError: they could not be answered.
    """
    # Here, because both import numba, and tests of the definition do without.
    from engine.forward import Engine  # noqa: PLC0415
    from engine.scheduler import Scheduler  # noqa: PLC0415

    config = config_of(architecture)
    weights = _Placed(config, weights_of(config, kind))
    engine = Engine(weights, num_threads=num_threads, max_rows=MAX_ROWS, max_outputs=4)
    try:
        scheduler = Scheduler(engine, prefill_tokens=_PREFILL_TOKENS, max_running=4)
        sequences = [scheduler.add(request) for request in REQUESTS]
        while not scheduler.is_idle:
            scheduler.step()
    finally:
        engine.close()
    for sequence in sequences:
        if sequence.error is not None:
            raise sequence.error
    return KnownAnswer(
        tuple((sequence.trace_root or b"").hex() for sequence in sequences),
        tuple(tuple(map(int, sequence.output_ids)) for sequence in sequences),
    )


def check(architecture: str, kinds: Iterable[str], *, num_threads: int) -> int:
    """Compare what the kernels give with what is committed; return how many models were asked.

    Args:
        architecture: family of the model that is to be served.
        kinds: of its matrices.
        num_threads: threads that compute.

    Raises:
        WrongAnswerError: they differ, or nothing is committed for such a model.
        EngineError: as `compute`.
    """
    number = 0
    for kind in sorted(set(kinds)):
        name = f"{architecture}/{kind}"
        expected = committed().get(name)
        if expected is None:
            raise WrongAnswerError(f"there is no known answer for {name}")
        if compute(architecture, kind, num_threads=num_threads) != expected:
            raise WrongAnswerError(
                f"known answer {name}: these kernels do not compute profile wh1 on this machine; "
                "it must not answer"
            )
        number += 1
    return number


def all_names() -> list[str]:
    """Return `family/kind` of every entry that has to be there."""
    return [f"{family}/{kind}" for family in DECODERS for kind in sorted(panels.BLOCK_INPUTS)]


class _Placed:
    """Weights as kernels read them."""

    def __init__(self, config: ModelConfig, weights: Mapping[str, Weight]) -> None:
        """Pack every tensor."""
        self.config = config
        self._memory: list[NDArray[np.uint8]] = []
        self._tensors: dict[str, PlacedTensor] = {}
        for name, weight in weights.items():
            if len(weight.shape) == 1:
                data = weight.vector().view(np.uint8)
            else:
                data = panels.pack(weight.kind, weight.fields, *weight.shape)
            memory = aligned_bytes(data.nbytes)
            memory[:] = data
            self._memory.append(memory)
            base = len(self._memory)
            self._tensors[name] = PlacedTensor(name, weight.kind, weight.shape, base, 0)
        self.bases = np.array([0, *map(address_of, self._memory)], np.int64)

    def find(self, name: str) -> PlacedTensor | None:
        """Return the tensor of that name."""
        return self._tensors.get(name)


class _Numbers:
    """SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) over its counter."""

    def __init__(self, seed: int) -> None:
        self._counter = np.uint64(seed << 24)

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Return integers, low <= n < high."""
        count = int(np.prod(shape))
        z = self._counter + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        self._counter = z[-1]
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
        return (z % np.uint64(high - low)).astype(np.int64).reshape(shape) + low

    def floats(self, shape: tuple[int, ...], scale: float) -> NDArray[np.float32]:
        """Return multiples of scale * 2^-20 between -scale and scale; scale a power of two."""
        numbers = self.integers(-(1 << 20), 1 << 20, shape).astype(np.float32)
        return numbers * np.float32(scale / (1 << 20))


def _fields(draw: _Numbers, kind: str, rows: int, columns: int) -> dict[str, NDArray[Any]]:
    """Return the fields of a matrix: every code occurs, values are near 1 / sqrt(columns)."""
    size = 2.0 ** -(columns.bit_length() // 2)
    if kind in FLOAT_KINDS:
        w = draw.floats((rows, columns), 2 * size)
        if kind == "BF16":
            return {"w": (w.view(np.uint32) >> 16).astype(np.uint16)}
        return {"w": w.astype(np.float16 if kind == "F16" else np.float32)}
    blocks = (rows, columns // panels.BLOCK_INPUTS[kind])
    bits = int(kind[1])
    # Half to one and a half times the scale, of either sign.
    scale = draw.floats(blocks, 0.5) + np.float32(1)
    scale *= draw.integers(0, 2, blocks).astype(np.float32) * 2 - 1
    scale *= np.float32(size / 2 ** (bits - 2))
    if kind == "Q8_0":
        return {"d": scale.astype(np.float16), "q": _codes(draw, -128, 128, rows, columns, np.int8)}
    fields: dict[str, NDArray[Any]] = {"q": _codes(draw, 0, 1 << bits, rows, columns, np.uint8)}
    if kind == "Q6_K":
        fields["d"] = (scale / 64).astype(np.float16)
        fields["sc"] = _codes(draw, -128, 128, rows, columns // 16, np.int8)
        return fields
    middle = np.float32(1 << (bits - 1))
    if kind.endswith("_K"):
        fields["d"] = (scale / 32).astype(np.float16)
        fields["dmin"] = (fields["d"].astype(np.float32) * middle).astype(np.float16)
        for name in ("sc", "mn"):
            fields[name] = _codes(draw, 0, 64, rows, columns // 32, np.uint8)
        return fields
    fields["d"] = scale.astype(np.float16)
    if kind.endswith("_1"):
        fields["m"] = (-fields["d"].astype(np.float32) * middle).astype(np.float16)
    return fields


def _codes(
    draw: _Numbers, low: int, high: int, rows: int, columns: int, dtype: type[np.generic]
) -> NDArray[Any]:
    return draw.integers(low, high, (rows, columns)).astype(dtype)
