"""Runs the file of a program on plain numbers, as the evaluator's library would on ciphertexts."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

Values = NDArray[np.float64]


def read_program(path: Path) -> tuple[dict[str, Any], list[bytes]]:
    """Return the metadata and the blobs of a program's file."""
    data = path.read_bytes()
    assert data[:8] == b"ORION\0\2\0"
    (size,) = struct.unpack_from("<I", data, 8)
    metadata = json.loads(data[12 : 12 + size])
    (count,) = struct.unpack_from("<I", data, 12 + size)
    offset, blobs = 16 + size, []
    for _ in range(count):
        (length,) = struct.unpack_from("<Q", data, offset)
        blobs.append(data[offset + 8 : offset + 8 + length])
        offset += 8 + length
    assert offset == len(data)
    assert metadata["blob_count"] == count
    return metadata, blobs


def run_program(path: Path, x: Values) -> Values:
    """Return what a program gives for float64[num_slots]; a bootstrap outside [-1, 1] fails."""
    metadata, blobs = read_program(path)
    graph = metadata["graph"]
    sources: dict[str, list[str]] = {}
    for edge in graph["edges"]:
        sources.setdefault(edge["dst"], []).append(edge["src"])
    found = {graph["input"]: x}
    for node in graph["nodes"][1:]:
        inputs = [found[name] for name in sources[node["name"]]]
        found[node["name"]] = step(node, inputs, blobs)
    return found[graph["output"]]


def step(node: dict[str, Any], inputs: list[Values], blobs: list[bytes]) -> Values:
    """Return what one step gives."""
    x = inputs[0]
    match node["op"]:
        case "linear_transform":
            diagonals = blobs[node["blob_refs"]["diag_0_0"]]
            (count,) = struct.unpack_from("<I", diagonals)
            steps = struct.unpack_from(f"<{count}i", diagonals, 4)
            rows = np.frombuffer(diagonals, "<f8", offset=4 + 4 * count).reshape(count, len(x))
            bias = np.frombuffer(blobs[node["blob_refs"]["bias_0"]], "<f8")
            total = bias + sum(row * np.roll(x, -k) for k, row in zip(steps, rows, strict=True))
            return np.asarray(total)
        case "quad":
            return x * x
        case "mult":
            return x * inputs[1]
        case "add":
            return x + inputs[1]
        case "polynomial":
            assert np.abs(x).max() <= 1
            return np.asarray(chebyshev.chebval(x, node["config"]["coeffs"]))
        case "bootstrap":
            assert np.abs(x).max() <= 1
            return x
    raise AssertionError(node["op"])
