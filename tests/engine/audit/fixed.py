"""One answer, computed, replayed and cut into units, to compare kernel paths and processors.

    python -m tests.engine.audit.fixed THREADS

prints one JSON object.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from engine.audit.answered import Answered
from engine.audit.execute import run_choices, run_embedding, run_layer
from engine.audit.replay import replay
from engine.audit.unit_weights import PartReader
from engine.convert.convert import convert
from engine.forward import Engine
from engine.memory.full import FullWeights
from engine.sampling.parameters import SamplingParameters
from engine.scheduler import Scheduler
from engine.sequence import Request
from engine.vqf import VqfFile, open_vqf
from simd.target import TARGET
from tests.engine.convert.support import tiny_folder
from tests.engine.kernels.models import random_ids

CHECKPOINT = "qwen3_tiny"
PROMPT_TOKENS = 70
OUTPUT_TOKENS = 9
SAMPLING = SamplingParameters(
    seed=2**63 + 5, temperature_millionths=1_100_000, repetition_penalty_millionths=1_100_000
)


@contextmanager
def fixed_file() -> Iterator[VqfFile]:
    """Give a small model in four bits."""
    with tempfile.TemporaryDirectory() as folder:
        source = tiny_folder(Path(folder) / CHECKPOINT, CHECKPOINT)
        target = Path(folder) / "q4.vqf"
        convert(source, target, quant="q4")
        with open_vqf(target) as file:
            yield file


def generated(engine: Engine) -> tuple[Answered, bytes]:
    """Generate token by token; return the answer and its trace root."""
    prompt = tuple(random_ids(engine.config, PROMPT_TOKENS))
    scheduler = Scheduler(engine)
    sequence = scheduler.add(Request(prompt, OUTPUT_TOKENS, SAMPLING))
    while not sequence.is_finished:
        scheduler.step()
    assert sequence.trace_root is not None
    return Answered(prompt, tuple(sequence.output_ids), SAMPLING), sequence.trace_root


def computed(file: VqfFile, num_threads: int) -> dict[str, Any]:
    """Return digests of everything that an audit computes."""
    columns: list[np.ndarray] = []
    with closing(Engine(FullWeights(file), num_threads=num_threads, max_positions=128)) as engine:
        answered, trace_root = generated(engine)
        replayed = replay(engine, answered, observe=lambda _f, states, _l: columns.append(states))
    states = np.concatenate(columns, axis=1)
    reader = PartReader(file)
    at = [0, 66, states.shape[1] - 1]
    layers = [
        run_layer(reader.layer(layer), states[layer - 1, : t + 1], num_threads=num_threads)
        for layer in range(1, len(states))
        for t in at
    ]
    wanted = [states[layer, t] for layer in range(1, len(states)) for t in at]
    rows = run_embedding(reader.embedding(), [answered.ids[t] for t in at], num_threads=num_threads)
    outputs = list(range(PROMPT_TOKENS - 1, states.shape[1]))
    choices = run_choices(
        reader.head(), states[-1, outputs], outputs, answered, num_threads=num_threads
    )
    return {
        "output_ids": list(answered.output_ids),
        "trace_root": trace_root.hex(),
        "replayed_ids": list(replayed.choices),
        "replayed_root": replayed.trace_root.hex(),
        "choices": choices,
        "layers_equal": bits(layers) == bits(wanted),
        "rows_equal": bits(rows) == bits(states[0, at]),
        "layers": hashlib.sha256(bits(layers)).hexdigest(),
    }


def bits(rows: Any) -> bytes:
    """Return the patterns of some states."""
    return np.stack(list(rows)).tobytes()


def main(num_threads: int) -> None:
    """Compute and report."""
    with fixed_file() as file:
        found = computed(file, num_threads)
    print(json.dumps({"path": TARGET.path, "found": found}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
