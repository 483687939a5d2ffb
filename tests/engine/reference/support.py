"""Inputs for the tests of the definition: tiny checkpoints, random numbers and bit patterns.

The random numbers come from SplitMix64 written out here, because NumPy does not promise its own
streams for ever and the committed vectors must be made again from the same inputs.
"""

from __future__ import annotations

import json
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.config import ModelConfig
from engine.reference.arrays import F32
from engine.reference.weights import Weight

DATA = Path(__file__).resolve().parents[2] / "data" / "reference"
CHECKPOINTS = ("llama_tiny", "qwen2_tiny", "qwen3_tiny")
INTEGER_KINDS = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K")

_MATRICES = {
    "self_attn.q_proj": "q",
    "self_attn.k_proj": "k",
    "self_attn.v_proj": "v",
    "self_attn.o_proj": "o",
    "mlp.gate_proj": "gate",
    "mlp.up_proj": "up",
    "mlp.down_proj": "down",
}
_VECTORS = {
    "input_layernorm.weight": "attention_norm",
    "post_attention_layernorm.weight": "ffn_norm",
    "self_attn.q_norm.weight": "q_norm",
    "self_attn.k_norm.weight": "k_norm",
    **{f"{theirs}.bias": f"{ours}_bias" for theirs, ours in list(_MATRICES.items())[:3]},
}
_IN_LAYER = _VECTORS | {f"{theirs}.weight": ours for theirs, ours in _MATRICES.items()}
_OUTSIDE = {
    "model.embed_tokens.weight": "embedding",
    "model.norm.weight": "final_norm",
    "lm_head.weight": "head",
}


class Checkpoint(NamedTuple):
    """A tiny random model in float32 and what another implementation computed with it."""

    config: ModelConfig
    weights: dict[str, Weight]
    golden: dict[str, NDArray[Any]]


def load_checkpoint(name: str) -> Checkpoint:
    """Read tests/data/reference/NAME."""
    # Imported here: the rest of this module also serves where that package is not installed.
    from safetensors.numpy import load_file

    folder = DATA / name
    raw = json.loads((folder / "config.json").read_text())
    tensors = load_file(folder / "model.safetensors")
    weights = {_our_name(theirs): Weight("F32", {"w": w}) for theirs, w in tensors.items()}
    heads = raw["num_attention_heads"]
    head_dim = raw.get("head_dim", raw["hidden_size"] // heads)
    config = ModelConfig(
        architecture=raw["model_type"],
        num_layers=raw["num_hidden_layers"],
        hidden_size=raw["hidden_size"],
        num_heads=heads,
        num_kv_heads=raw["num_key_value_heads"],
        head_dim=head_dim,
        intermediate_size=raw["intermediate_size"],
        vocab_size=raw["vocab_size"],
        context_length_tokens=raw["max_position_embeddings"],
        norm_eps_bits=int(np.array([raw["rms_norm_eps"]], dtype=np.float32).view(np.uint32)[0]),
        rope_inv_freq_bits=inv_freq_bits(raw["rope_parameters"]["rope_theta"], head_dim),
        tied_embeddings=raw["tie_word_embeddings"],
        attention_bias="layers.0.q_bias" in weights,
        qk_norm="layers.0.q_norm" in weights,
    )
    with np.load(folder / "golden.npz") as golden:
        return Checkpoint(config, weights, dict(golden.items()))


def inv_freq_bits(theta: float, rotated_dims: int) -> tuple[int, ...]:
    """Return theta^(-2i/d) at 50 digits, rounded once to binary64, as patterns."""
    with localcontext() as context:
        context.prec = 50
        log_theta = Decimal(theta).ln()
        frequencies = [
            float((-log_theta * 2 * i / rotated_dims).exp()) for i in range(rotated_dims // 2)
        ]
    return tuple(int(bits) for bits in np.array(frequencies, dtype=np.float64).view(np.uint64))


class SplitMix64:
    """The generator of Steele, Lea and Flood (OOPSLA 2014), vectorised over its counter."""

    def __init__(self, seed: int) -> None:
        """Begin at a seed; equal seeds give equal streams."""
        self._counter = np.uint64(seed)

    def bits(self, count: int) -> NDArray[np.uint64]:
        """Return the next 64-bit values: uint64[count]."""
        steps = np.arange(1, count + 1, dtype=np.uint64)
        z = self._counter + steps * np.uint64(0x9E3779B97F4A7C15)
        if count:
            self._counter = z[-1]
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Return integers, low <= n < high (the tiny bias of the modulus does not matter here)."""
        count = int(np.prod(shape))
        return (self.bits(count) % np.uint64(high - low)).astype(np.int64).reshape(shape) + low

    def floats(self, shape: tuple[int, ...], scale: float = 1.0) -> F32:
        """Return multiples of scale * 2^-24 between -scale and scale; scale a power of two."""
        numbers = self.integers(-(1 << 24), 1 << 24, shape).astype(np.float32)
        return numbers * np.float32(scale / (1 << 24))

    def wide_floats(self, shape: tuple[int, ...], low_exponent: int, high_exponent: int) -> F32:
        """Return normal numbers of either sign, 2^low <= |x| < 2^high, exponents spread evenly."""
        sign_and_fraction = self.integers(0, 1 << 24, shape)
        exponent = self.integers(low_exponent + 127, high_exponent + 127, shape)
        pattern = (
            (sign_and_fraction >> 23 << 31) | (exponent << 23) | (sign_and_fraction & 0x7FFFFF)
        )
        return pattern.astype(np.uint32).view(np.float32)


def random_fields(kind: str, rows: int, columns: int, seed: int) -> dict[str, NDArray[Any]]:
    """Return random fields of one kind, the extremes of every field among them."""
    source = SplitMix64(seed)

    def codes(low: int, high: int, dtype: type[np.generic], shape: tuple[int, int]) -> NDArray[Any]:
        drawn = source.integers(low, high, shape)
        # One row at each end of the range, so that the largest integer sums are reached.
        drawn[0] = low
        drawn[1] = high - 1
        return drawn.astype(dtype)

    def halves(shape: tuple[int, int], scale: float) -> NDArray[np.float16]:
        return source.floats(shape, scale).astype(np.float16)

    groups = (rows, columns // 32)
    blocks = (rows, columns // 256)
    if kind in {"F32", "F16", "BF16"}:
        w = source.floats((rows, columns))
        if kind == "BF16":
            return {"w": (w.view(np.uint32) >> 16).astype(np.uint16)}
        return {"w": w.astype(np.float16 if kind == "F16" else np.float32)}
    if kind == "Q8_0":
        return {"q": codes(-128, 128, np.int8, (rows, columns)), "d": halves(groups, 2**-9)}
    if kind == "Q6_K":
        return {
            "q": codes(0, 64, np.uint8, (rows, columns)),
            "d": halves(blocks, 2**-10),
            "sc": codes(-128, 128, np.int8, (rows, columns // 16)),
        }
    fields = {"q": codes(0, 16 if kind.startswith("Q4") else 32, np.uint8, (rows, columns))}
    if kind.endswith("_K"):
        return fields | {
            "d": halves(blocks, 2**-10),
            "dmin": halves(blocks, 2**-10),
            "sc": codes(0, 64, np.uint8, groups),
            "mn": codes(0, 64, np.uint8, groups),
        }
    fields["d"] = halves(groups, 2**-5)
    if kind.endswith("_1"):
        fields["m"] = halves(groups, 2**-3)
    return fields


def same_bits(a: NDArray[Any], b: NDArray[Any]) -> bool:
    """Compare arrays by type, shape and bit pattern: -0.0 is not 0.0."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def to_hex(values: NDArray[Any]) -> str:
    """Write an array as bit patterns in C order, most significant digit first."""
    flat = np.ascontiguousarray(values).ravel()
    size = flat.dtype.itemsize
    return "".join(f"{int(bits):0{2 * size}x}" for bits in flat.view(f"<u{size}"))


def from_hex(text: str, dtype: type[np.floating[Any]] = np.float32) -> NDArray[Any]:
    """Read what `to_hex` wrote, as one dimension."""
    return np.frombuffer(bytes.fromhex(text), dtype=np.dtype(dtype).newbyteorder(">")).astype(dtype)


def f32(*bits: int) -> F32:
    """Return the numbers with these bit patterns."""
    return np.array(bits, dtype=np.uint32).view(np.float32)


def _our_name(theirs: str) -> str:
    if theirs in _OUTSIDE:
        return _OUTSIDE[theirs]
    _, _, layer, rest = theirs.split(".", 3)
    return f"layers.{layer}.{_IN_LAYER[rest]}"
