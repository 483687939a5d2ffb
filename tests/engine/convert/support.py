"""GGUF files and checkpoint folders made for tests, and the tiny reference checkpoints.

`Gguf` writes the format from its own description, so that it can also write files that are wrong.
"""

from __future__ import annotations

import json
import shutil
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).resolve().parents[2] / "data"
CONVERT = DATA / "convert"
REFERENCE = DATA / "reference"
TINY = ("llama_tiny", "qwen2_tiny", "qwen3_tiny")

VALUE_TYPES = {"u8": 0, "i8": 1, "u16": 2, "i16": 3, "u32": 4, "i32": 5, "f32": 6, "bool": 7}
VALUE_TYPES |= {"str": 8, "arr": 9, "u64": 10, "i64": 11, "f64": 12}
CODES = {"u8": "B", "i8": "b", "u16": "H", "i16": "h", "u32": "I", "i32": "i", "f32": "f"}
CODES |= {"bool": "B", "u64": "Q", "i64": "q", "f64": "d"}
KINDS = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q5_1": 7, "Q8_0": 8}
KINDS |= {"Q4_K": 12, "Q5_K": 13, "Q6_K": 14, "BF16": 30}
BLOCKS = {"F32": (1, 4), "F16": (1, 2), "BF16": (1, 2), "Q4_0": (32, 18), "Q4_1": (32, 20)}
BLOCKS |= {"Q5_0": (32, 22), "Q5_1": (32, 24), "Q8_0": (32, 34)}
BLOCKS |= {"Q4_K": (256, 144), "Q5_K": (256, 176), "Q6_K": (256, 210)}


def text(value: str | bytes) -> bytes:
    """A length-prefixed string."""
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def scalar(kind: str, value: Any) -> bytes:
    """A value without its type."""
    return text(value) if kind == "str" else struct.pack("<" + CODES[kind], value)


@dataclass
class Tensor:
    """A tensor of a GGUF file: dimensions as the file has them, the length of a row first."""

    name: str
    kind: str | int
    dims: tuple[int, ...]
    data: bytes
    offset: int | None = None
    """Instead of the next free place."""


@dataclass
class Gguf:
    """A GGUF file to be: metadata as {key: (type, value)}, arrays as {key: ("arr:str", [...])}."""

    metadata: dict[str, tuple[str, Any]] = field(default_factory=dict)
    tensors: list[Tensor] = field(default_factory=list)
    magic: bytes = b"GGUF"
    version: int = 3
    num_tensors: int | None = None
    num_keys: int | None = None
    alignment: int = 32

    def pair(self, key: str, kind: str, value: Any) -> bytes:
        """One entry of the metadata."""
        if not kind.startswith("arr:"):
            return text(key) + struct.pack("<I", VALUE_TYPES[kind]) + scalar(kind, value)
        element = kind.removeprefix("arr:")
        head = struct.pack("<IIQ", VALUE_TYPES["arr"], VALUE_TYPES[element], len(value))
        return text(key) + head + b"".join(scalar(element, item) for item in value)

    def encode(self) -> bytes:
        """The bytes of the file."""
        num_tensors = len(self.tensors) if self.num_tensors is None else self.num_tensors
        num_keys = len(self.metadata) if self.num_keys is None else self.num_keys
        head = self.magic + struct.pack("<IQQ", self.version, num_tensors, num_keys)
        for key, (kind, value) in self.metadata.items():
            head += self.pair(key, kind, value)
        end = 0
        data = bytearray()
        for tensor in self.tensors:
            offset = end if tensor.offset is None else tensor.offset
            kind = KINDS[tensor.kind] if isinstance(tensor.kind, str) else tensor.kind
            head += text(tensor.name) + struct.pack("<I", len(tensor.dims))
            head += struct.pack(f"<{len(tensor.dims)}QIQ", *tensor.dims, kind, offset)
            data += bytes(max(0, end - len(data))) + tensor.data
            end = -(-len(data) // self.alignment) * self.alignment
        head += bytes(-len(head) % self.alignment)
        return head + bytes(data)

    def write(self, path: Path) -> Path:
        """Write the file."""
        path.write_bytes(self.encode())
        return path


def byte_alphabet() -> list[str]:
    """The 256 characters of byte-level BPE, in the order of the bytes."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(others)) for b in range(256)]


MERGES = ["h e", "l l", "Ġ w", "he ll", "hell o"]


def tokens() -> tuple[list[str], list[int]]:
    """A vocabulary of 264 tokens and their types."""
    names = [*byte_alphabet(), *(merge.replace(" ", "") for merge in MERGES)]
    return [*names, "<|end|>", "<|im_end|>", "[PAD263]"], [1] * len(names) + [3, 3, 5]


def random_rows(kind: str, rows: int, columns: int, seed: int) -> bytes:
    """Rows of blocks with random codes and finite scales."""
    rng = np.random.default_rng(seed)
    if kind == "F32":
        return rng.standard_normal((rows, columns), np.float32).tobytes()
    if kind == "F16":
        return rng.standard_normal((rows, columns)).astype(np.float16).tobytes()
    if kind == "BF16":
        wide = rng.standard_normal((rows, columns), np.float32).view(np.uint32)
        return (wide >> np.uint32(16)).astype(np.uint16).tobytes()
    inputs, block_bytes = BLOCKS[kind]
    blocks = rng.integers(0, 256, (rows * columns // inputs, block_bytes), np.uint8)
    halves = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0]}
    halves |= {"Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}
    for at in halves[kind]:
        scales = rng.standard_normal(len(blocks)).astype(np.float16)
        blocks[:, at : at + 2] = scales.view(np.uint8).reshape(-1, 2)
    return blocks.tobytes()


def small_gguf(
    architecture: str = "llama", *, hidden: int = 32, kinds: dict[str, str] | None = None
) -> Gguf:
    """A valid file of one layer: 2 heads over 1 of dimension 16, inner width as `hidden`.

    `kinds` gives the kind of a matrix by the part of its name between `blk.0.` and `.weight`.
    """
    names, types = tokens()
    heads = 2
    metadata: dict[str, tuple[str, Any]] = {
        "general.architecture": ("str", architecture),
        "general.alignment": ("u32", 32),
        f"{architecture}.block_count": ("u32", 1),
        f"{architecture}.context_length": ("u32", 128),
        f"{architecture}.embedding_length": ("u32", hidden),
        f"{architecture}.feed_forward_length": ("u32", hidden),
        f"{architecture}.attention.head_count": ("u32", heads),
        f"{architecture}.attention.head_count_kv": ("u32", 1),
        f"{architecture}.attention.key_length": ("u32", hidden // heads),
        f"{architecture}.attention.value_length": ("u32", hidden // heads),
        f"{architecture}.attention.layer_norm_rms_epsilon": ("f32", 1e-5),
        f"{architecture}.rope.freq_base": ("f32", 10000.0),
        "tokenizer.ggml.model": ("str", "gpt2"),
        "tokenizer.ggml.pre": ("str", "gpt-2"),
        "tokenizer.ggml.tokens": ("arr:str", names),
        "tokenizer.ggml.token_type": ("arr:i32", types),
        "tokenizer.ggml.merges": ("arr:str", MERGES),
        "tokenizer.ggml.eos_token_id": ("u32", 261),
        "tokenizer.chat_template": ("str", "{{ messages }}"),
    }
    half = hidden // 2
    matrices = {
        "attn_q": (hidden, hidden),
        "attn_k": (half, hidden),
        "attn_v": (half, hidden),
        "attn_output": (hidden, hidden),
        "ffn_gate": (hidden, hidden),
        "ffn_up": (hidden, hidden),
        "ffn_down": (hidden, hidden),
    }
    vectors = {"attn_norm.weight": hidden, "ffn_norm.weight": hidden}
    if architecture == "qwen2":
        vectors |= {"attn_q.bias": hidden, "attn_k.bias": half, "attn_v.bias": half}
    if architecture == "qwen3":
        vectors |= {"attn_q_norm.weight": half, "attn_k_norm.weight": half}
    tensors = [matrix("token_embd.weight", "F32", len(names), hidden)]
    for part, (rows, columns) in matrices.items():
        tensors.append(
            matrix(f"blk.0.{part}.weight", (kinds or {}).get(part, "F32"), rows, columns)
        )
    for part, size in vectors.items():
        tensors.append(vector(f"blk.0.{part}", size))
    tensors.append(vector("output_norm.weight", hidden))
    return Gguf(metadata, tensors)


def matrix(name: str, kind: str, rows: int, columns: int) -> Tensor:
    """A matrix of random values that depend on its name."""
    seed = int.from_bytes(name.encode(), "little") % 2**32
    return Tensor(name, kind, (columns, rows), random_rows(kind, rows, columns, seed))


def vector(name: str, size: int) -> Tensor:
    """A vector of random values that depend on its name."""
    seed = int.from_bytes(name.encode(), "little") % 2**32
    return Tensor(name, "F32", (size,), random_rows("F32", 1, size, seed))


def tiny_folder(folder: Path, name: str) -> Path:
    """Copy a tiny reference checkpoint with everything that a folder has."""
    folder.mkdir()
    for file in ("config.json", "model.safetensors"):
        shutil.copyfile(REFERENCE / name / file, folder / file)
    for file in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copyfile(CONVERT / file, folder / file)
    return folder


def edit_json(path: Path, **changes: Any) -> None:
    """Set keys of a JSON object; None is written as null, `...` removes the key."""
    value = json.loads(path.read_text())
    for key, change in changes.items():
        value.pop(key, None)
        if change is not ...:
            value[key] = change
    path.write_text(json.dumps(value))


def encode_safetensors(tensors: dict[str, tuple[str, tuple[int, ...], bytes]]) -> bytes:
    """A safetensors file from {name: (dtype, shape, bytes)}."""
    header: dict[str, Any] = {}
    at = 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    encoded = json.dumps(header).encode()
    body = b"".join(data for _, _, data in tensors.values())
    return struct.pack("<Q", len(encoded)) + encoded + body


def read_safetensors(path: Path) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """The inverse of `encode_safetensors`."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    body = data[8 + length :]
    return {
        name: (entry["dtype"], tuple(entry["shape"]), body[slice(*entry["data_offsets"])])
        for name, entry in header.items()
    }
