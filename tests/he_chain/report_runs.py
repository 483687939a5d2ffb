"""A small run with its references, made of plain numbers: what reports are tested on.

Its ciphertexts are the bytes of float64 with a checksum, so that tests can make any error that they
want; what real ciphertexts do is tested with the chain.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from he_chain.errors import ProtocolError
from he_chain.parameters import Parameters
from he_chain.records.claims import CLAIMS, security_line
from he_chain.records.record import Begin, Record, Seen
from he_chain.records.run_folder import Run

LAYERS, POSITIONS, WIDTH, VOCAB = 3, 2, 8, 20
PARTS = 2
"""Ciphertexts that the logits are in."""


@dataclass(frozen=True)
class Reference:
    residuals: np.ndarray
    logits: np.ndarray


class PlainHolder:
    """Decrypts what `seal_values` made; another key gives other numbers, without an error."""

    def __init__(self, key: float = 0.0) -> None:
        self.key = key

    def decrypt(self, data: bytes) -> np.ndarray:
        body, checksum = data[:-4], data[-4:]
        if zlib.crc32(body).to_bytes(4, "big") != checksum:
            raise ProtocolError("the ciphertext is damaged")
        return np.frombuffer(body, np.float64) + self.key


def seal_values(values: np.ndarray, slots: int = 16) -> bytes:
    padded = np.zeros(slots)
    padded[: len(values)] = values
    body = padded.tobytes()
    return body + zlib.crc32(body).to_bytes(4, "big")


def references(seed: int = 5) -> dict[str, Reference]:
    """Return `exact`, and a `wh1-float` that is 2^-16 away from it."""
    draw = np.random.default_rng(seed)
    residuals = draw.standard_normal((LAYERS + 1, POSITIONS, WIDTH))
    logits = draw.standard_normal((POSITIONS, VOCAB))
    exact = Reference(residuals, logits)
    other = Reference(residuals * (1 + 2.0**-16), logits * (1 + 2.0**-16))
    return {"exact": exact, "wh1-float": other}


def begin(**changes: object) -> Begin:
    settings: dict[str, object] = {
        "run_id": bytes(range(16)),
        "protocol": "assist",
        "model_digest": bytes([1]) * 32,
        "plan_digest": bytes([2]) * 32,
        "calibration_digest": bytes([3]) * 32,
        "backend": "seal",
        "parameters": Parameters(8192, 2),
        "num_layers": LAYERS,
        "width": WIDTH,
        "gate_bits": 15,
        "libraries": {"numpy": "2.4.0"},
        "security": security_line(Parameters(8192, 2), "seal", "assist"),
        "claims": CLAIMS["assist"],
        **changes,
    }
    return Begin(**settings)  # type: ignore[arg-type]


def make_run(folder: Path, *, error: float = 1e-7, seed: int = 5, **changes: object) -> Run:
    """Write a finished run whose values are off by `error` times noise."""
    truth = references(seed)["exact"]
    draw = np.random.default_rng(seed + 1)
    run = Run.create(folder, begin(**changes))
    for position in range(POSITIONS):
        last = run.write_blob(
            f"p{position}.in", seal_values(truth.residuals[0, position]), 2, 2**40
        )
        for layer in range(LAYERS):
            values = truth.residuals[layer + 1, position]
            values = values + error * draw.uniform(-1, 1, WIDTH)
            name = f"{run.next_number:05}.x"
            out = run.write_blob(name, seal_values(values), 1, 2.0**40, values=WIDTH)
            _append(run, "lay", position, layer, (last,), (out,))
            last = out
        parts = np.split(truth.logits[position] + error * draw.uniform(-1, 1, VOCAB), PARTS)
        outs = tuple(
            run.write_blob(
                f"{run.next_number:05}.logits{i}", seal_values(part), 1, 2**40, values=len(part)
            )
            for i, part in enumerate(parts)
        )
        _append(run, "fin", position, None, (last,), outs)
    return run


def _append(run: Run, kind: str, position: int, layer: int | None, inputs, outputs) -> None:
    run.append(
        Record(
            kind=kind,
            number=run.next_number,
            position=position,
            layer=layer,
            inputs=inputs,
            outputs=outputs,
            counts={"rotations": 40, "ct_pt": 100, "ct_ct": 2},
            exchanges=3,
            bytes_up=1_000_000,
            bytes_down=2_000_000,
            cpu_s=0.25,
            wall_s=0.5,
            peak_rss_bytes=300_000_000,
            op_seconds={"rotations": 0.15, "ct_pt": 0.05, "encodes": 0.04, "other": 0.01},
            levels=((2, 5), (1, 100), (0, 30), (2, 4), (1, 60)),
            seen_by_holder=(Seen("h1", WIDTH, 53), Seen("q", WIDTH, 53)),
            seen_by_evaluator=(Seen("x", WIDTH, 0),),
            previous=run.head,
        )
    )
