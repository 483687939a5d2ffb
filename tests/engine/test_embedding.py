"""Vectors of texts (NUMERICS N14): alone, among others, and where none can be made."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine.errors import ConfigError, ContextLengthError, NonFiniteError
from engine.forward import Engine
from engine.grammar.spec import JsonObject
from engine.pooling import Pooling
from engine.reference.arrays import F32
from engine.reference.decoder import ReferenceModel
from engine.reference.trace import trace_root
from engine.sampling.parameters import SamplingParameters
from engine.scheduler import Scheduler
from engine.sequence import FinishReason, Request
from tests.engine.kernels.models import MemoryWeights, random_weights
from tests.engine.support import CONFIG, MAX_BLOCKS, MAX_POSITIONS, Observed, bits, prompt

GREEDY = SamplingParameters(temperature_millionths=0)
LENGTHS = (1, 2, 33, 64, 65, 150)


def embed(length: int) -> Request:
    return Request(prompt(length, length), 0, GREEDY, embeds=True)


def fold(values: list[np.float32]) -> np.float32:
    """Sum as N1 says, number by number."""
    lanes = [np.float32(0)] * 16
    for index, value in enumerate(values):
        lanes[index % 16] = lanes[index % 16] + value
    for width in (8, 4, 2, 1):
        lanes = [lanes[i] + lanes[i + width] for i in range(width)]
    return lanes[0]


def defined(states: F32, norm: F32, eps_bits: int, *, is_mean: bool) -> list[np.float32]:
    """Return the vector as N14 says, number by number."""
    size = np.float32(len(norm))
    eps = np.uint32(eps_bits).view(np.float32)
    rows = []
    for x in states:
        r = np.float32(1) / np.sqrt(fold([v * v for v in x]) / size + eps)
        rows.append([(v * r) * w for v, w in zip(x, norm, strict=True)])
    e = rows[-1]
    if is_mean:
        e = [np.float32(0)] * len(norm)
        for row in rows:
            e = [a + b for a, b in zip(e, row, strict=True)]
        e = [a / np.float32(len(rows)) for a in e]
    r = np.float32(1) / np.sqrt(fold([v * v for v in e]))
    return [v * r for v in e]


@pytest.fixture(scope="module", params=["mean", "last"])
def embedder(request: pytest.FixtureRequest):
    """Return an engine, the definition of its model, and the weight of its last norm."""
    config = replace(CONFIG, pooling=request.param)
    tensors = random_weights(config, ("Q4_1", "Q8_0", "F16"))
    engine = Engine(
        MemoryWeights(config, tensors),
        num_threads=2,
        max_rows=64,
        max_outputs=8,
        max_positions=MAX_POSITIONS,
        max_blocks=MAX_BLOCKS,
    )
    yield engine, ReferenceModel(config, tensors), tensors["final_norm"].fields["w"]
    engine.close()


def test_a_text_becomes_the_vector_that_is_defined_whatever_runs_beside_it(embedder):
    engine, model, norm = embedder
    observed = Observed(engine)
    running = Scheduler(observed, prefill_tokens=20, max_running=3)  # type: ignore[arg-type]
    others = [running.add(Request(prompt(n, n), 9, GREEDY)) for n in (5, 40)]
    sequences = {n: running.add(embed(n), owner=b"%d" % (n % 2)) for n in LENGTHS}
    while not running.is_idle:
        running.step()
    for length, sequence in sequences.items():
        assert sequence.finish_reason is FinishReason.STOP
        assert sequence.output_ids == []
        forward = model.forward(sequence.request.prompt_ids)
        wanted = defined(
            forward.residuals[-1],
            norm,
            engine.config.norm_eps_bits,
            is_mean=engine.config.pooling == "mean",
        )
        assert bits(sequence.vector) == bits(np.array(wanted, np.float32)), length
        assert abs(float(np.linalg.norm(sequence.vector.astype(np.float64))) - 1) < 1e-6
        assert sequence.trace_root == trace_root(forward.residuals)
    alone = Scheduler(engine, prefill_tokens=20, max_running=1)
    for other in others:
        again = alone.add(other.request)
        while not alone.is_idle:
            alone.step()
        assert other.vector is None
        assert (other.output_ids, other.trace_root) == (again.output_ids, again.trace_root)


def test_what_makes_no_vector_is_refused(embedder):
    engine, _, _ = embedder
    running = Scheduler(engine, prefill_tokens=20, max_running=1)
    with pytest.raises(ConfigError):
        running.add(replace(embed(3), max_tokens=1))
    with pytest.raises(ConfigError):
        running.add(replace(embed(3), grammar=JsonObject()))  # type: ignore[arg-type]
    with pytest.raises(ConfigError):
        running.add(replace(embed(3), prompt_ids=()))
    with pytest.raises(ConfigError):
        running.add(embed(3), cache_key=bytes(32))
    running.add(embed(MAX_POSITIONS))
    with pytest.raises(ContextLengthError):
        running.add(embed(MAX_POSITIONS + 1))
    running.cancel_all()


def test_a_model_that_does_not_say_how_makes_no_vectors(engine: Engine):
    with pytest.raises(ConfigError):
        Scheduler(engine, prefill_tokens=20, max_running=1).add(embed(3))


def pooling(kind: str, width: int = 32) -> Pooling:
    return Pooling(kind, np.ones(width, np.float32), 0x3727C5AC)


@pytest.mark.parametrize("kind", ["mean", "last"])
def test_the_pieces_do_not_matter(kind: str):
    states = np.random.default_rng(1).standard_normal((23, 32)).astype(np.float32)
    whole, pieces = pooling(kind), pooling(kind)
    whole.push(states)
    for cut in np.split(states, [1, 2, 9, 20]):
        pieces.push(cut)
    assert bits(whole.vector()) == bits(pieces.vector())


@pytest.mark.parametrize(
    "states",
    [np.zeros((3, 32)), np.full((3, 32), np.inf), np.full((3, 32), 1e30), np.full((3, 32), np.nan)],
    ids=["zero", "infinite", "too-large", "nan"],
)
@pytest.mark.parametrize("kind", ["mean", "last"])
def test_a_text_without_a_direction_is_an_error(kind: str, states: F32):
    pooled = pooling(kind)
    pooled.push(states.astype(np.float32))
    with pytest.raises(NonFiniteError):
        pooled.vector()


def test_a_pooling_is_mean_or_last_and_has_a_text():
    with pytest.raises(ConfigError):
        pooling("cls")
    with pytest.raises(ConfigError):
        pooling("mean").vector()
