"""What an evaluator runs in one go: linear maps, polynomials, products, sums and bootstraps.

Levels are followed while a program is built, so that one that cannot run is refused before there is
a key. The file is the container that `orion-v2-evaluator` 2.1.8 reads:

    "ORION" 0 2 0 | length of metadata, 4 bytes | metadata, JSON | number of blobs, 4 bytes |
    for each: length, 8 bytes | blob; integers little-endian, numbers binary64
"""

from __future__ import annotations

import json
import math
import struct
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from crypto.atomic import AtomicFile
from he_chain.backends.lattigo_parameters import BootParameters
from he_chain.errors import LevelError, PlanError, RangeError

_MAGIC: Final = b"ORION\x00\x02\x00"
MAX_DEGREE: Final = 127

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Node:
    """A value of a program: a vector of all slots."""

    name: str
    level: int


@dataclass
class Program:
    """A graph with one input; its methods add a step and return what it gives."""

    parameters: BootParameters
    counts: Counter[str] = field(default_factory=Counter)
    """Steps so far, in the words of records.py; not what polynomials and bootstraps do inside."""
    rotations: set[int] = field(default_factory=set)
    """Steps of rotations that need a key."""
    _nodes: list[dict[str, Any]] = field(default_factory=list)
    _edges: list[tuple[str, str]] = field(default_factory=list)
    _blobs: list[bytes] = field(default_factory=list)

    def input(self, level: int) -> Node:
        """Return the ciphertext that is given.

        Raises:
            LevelError: no ciphertext has that level.
            PlanError: there is an input already.
        """
        if self._nodes:
            raise PlanError("a program has one input")
        if not 0 <= level <= self.parameters.num_levels:
            raise LevelError(f"input: level {level} of {self.parameters.num_levels}")
        return self._node("input", "flatten", level, 0, level, [])

    def linear(self, name: str, x: Node, diagonals: Values, bias: Values | None = None) -> Node:
        """Return sum_k diagonals[k] * (x to the left by k) + bias; one level.

        Args:
            name: of the step.
            x: the vector.
            diagonals: float64[d, period], d a power of 4, the period one of 2; repeated over all
                slots. Baby steps and giant steps are sqrt(d) each.
            bias: float64[period].

        Raises:
            LevelError, PlanError: no level is left; other shapes.
        """
        count, period = diagonals.shape
        slots = self.parameters.num_slots
        baby = math.isqrt(count)
        if baby * baby != count or count & (count - 1) or slots % period or count > slots:
            raise PlanError(f"{name}: {count} diagonals of period {period}")
        added = np.zeros(period) if bias is None else bias
        if not np.isfinite(diagonals).all() or not np.isfinite(added).all():
            raise PlanError(f"{name}: a weight is not finite")
        repeats = slots // period
        head = struct.pack(f"<I{count}i", count, *range(count))
        body = np.tile(diagonals, (1, repeats)).astype("<f8").tobytes()
        self._blobs += [head + body, np.tile(added, repeats).astype("<f8").tobytes()]
        refs = {"diag_0_0": len(self._blobs) - 2, "bias_0": len(self._blobs) - 1}
        self.rotations.update(k for k in (*range(baby), *range(0, count, baby)) if k)
        self.counts.update(rotations=2 * (baby - 1), ct_pt=count, encodes=count + 1, rescales=1)
        config = {"bsgs_ratio": 1.0, "output_rotations": 0, "num_input_cts": 1, "num_output_cts": 1}
        return self._node(name, "linear_transform", x.level, 1, x.level - 1, [x], config, refs)

    def square(self, name: str, x: Node) -> Node:
        """Return x * x; one level."""
        self.counts.update(ct_ct=1, rescales=1)
        return self._node(name, "quad", x.level, 1, x.level - 1, [x])

    def mul(self, name: str, x: Node, y: Node) -> Node:
        """Return x * y at one level below the lower of theirs."""
        level = min(x.level, y.level)
        self.counts.update(ct_ct=1, rescales=1)
        return self._node(name, "mult", level, 1, level - 1, [x, y])

    def add(self, name: str, x: Node, y: Node) -> Node:
        """Return x + y at the lower of their levels."""
        level = min(x.level, y.level)
        return self._node(name, "add", level, 0, level, [x, y])

    def chebyshev(self, name: str, x: Node, coefficients: Values) -> Node:
        """Return a polynomial of x, whose values must be in [-1, 1]; ceil(log2(degree + 1)) levels.

        Args:
            name: of the step.
            x: the vector.
            coefficients: float64[degree + 1] in Chebyshev's basis, degree 2 .. 127.

        Raises:
            LevelError, PlanError: not enough levels are left; another degree.
        """
        degree = len(coefficients) - 1
        if not 2 <= degree <= MAX_DEGREE or not np.isfinite(coefficients).all():
            raise PlanError(f"{name}: a polynomial of degree {degree}, or one that is not finite")
        depth = math.ceil(math.log2(degree + 1))
        config = {
            "coeffs": [float(value) for value in coefficients],
            "basis": "chebyshev",
            "prescale": 1.0,
            "postscale": 1.0,
            "constant": 0.0,
        }
        return self._node(name, "polynomial", x.level, depth, x.level - depth, [x], config)

    def bootstrap(self, name: str, x: Node, bound: float) -> Node:
        """Return x at the top level again.

        Args:
            name: of the step.
            x: a vector that repeats with period 2^log_slots.
            bound: what the caller proves of |x|. Beyond 1 Lattigo's modular reduction is wrong, and
                it does not say so.

        Raises:
            LevelError: x is at level 0: Lattigo takes one level to bring x to the scale it wants.
            RangeError: the bound is above 1.
        """
        if x.level < 1:
            raise LevelError(f"{name}: a bootstrap takes level 1, {x.level} left")
        if not 0 < bound <= 1:
            raise RangeError(f"{name}: values up to {bound} in a bootstrap, which takes [-1, 1]")
        self.counts.update(bootstraps=1)
        config = {
            "input_level": x.level,
            "input_min": -1.0,
            "input_max": 1.0,
            "prescale": 1.0,
            "postscale": 1.0,
            "constant": 0.0,
            "slots": 1 << self.parameters.log_slots,
        }
        top = self.parameters.num_levels
        return self._node(name, "bootstrap", x.level, 0, top, [x], config)

    def levels(self) -> list[tuple[str, str, int]]:
        """Return (name, operation, level of its result) of every step, in order."""
        return [(node["name"], node["op"], node["result"]) for node in self._nodes]

    def write(self, path: Path, output: Node) -> int:
        """Write the file for an evaluator and return its bytes.

        Raises:
            WriteError: there is one, or the file system refused.
        """
        level = self._nodes[0]["level"]
        nodes = [{key: node[key] for key in node if key != "result"} for node in self._nodes]
        settings = self.parameters.to_json()
        slots, primes = [1 << self.parameters.log_slots], settings["boot_logp"]
        bootstraps = self.counts["bootstraps"]
        metadata = {
            "version": 2,
            "params": settings,
            "config": {"margin": 1, "embedding_method": "hybrid", "fuse_modules": False},
            "manifest": {
                "galois_elements": galois_elements(self.rotations, self.parameters),
                "bootstrap_slots": slots if bootstraps else [],
                "boot_logp": primes,
                "btp_logn": self.parameters.log_degree,
                "needs_rlk": True,
            },
            "input_level": level,
            "cost": {
                "bootstrap_count": bootstraps,
                "galois_key_count": len(self.rotations),
                "bootstrap_key_count": 1 if bootstraps else 0,
            },
            "graph": {
                "input": self._nodes[0]["name"],
                "output": output.name,
                "nodes": nodes,
                "edges": [{"src": source, "dst": target} for source, target in self._edges],
            },
            "blob_count": len(self._blobs),
        }
        text = json.dumps(metadata, allow_nan=False).encode()
        parts = [_MAGIC, struct.pack("<I", len(text)), text, struct.pack("<I", len(self._blobs))]
        for blob in self._blobs:
            parts += [struct.pack("<Q", len(blob)), blob]
        offset = 0
        with AtomicFile(path, force=False) as file:
            file.create()
            for part in parts:
                file.write_at(offset, part)
                offset += len(part)
            file.commit()
        return offset

    def _node(
        self,
        name: str,
        operation: str,
        level: int,
        depth: int,
        result: int,
        inputs: list[Node],
        config: dict[str, Any] | None = None,
        refs: dict[str, int] | None = None,
    ) -> Node:
        if result < 0:
            raise LevelError(f"{name}: takes {depth} levels, {level} left")
        if any(node["name"] == name for node in self._nodes):
            raise PlanError(f"two steps are called {name}")
        node = {"name": name, "op": operation, "level": level, "depth": depth, "result": result}
        node["config"] = config or {}
        if refs:
            node["blob_refs"] = refs
        self._nodes.append(node)
        self._edges += [(source.name, name) for source in inputs]
        return Node(name, result)


def galois_elements(rotations: set[int], parameters: BootParameters) -> list[int]:
    """Return the automorphisms 5^k modulo 2N that move slots to the left by k."""
    return sorted(pow(5, k, 2 * parameters.ring_degree) for k in rotations)
