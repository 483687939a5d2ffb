"""Profile `wh1-float` (NUMERICS N13) against what another implementation computed in float32."""

from __future__ import annotations

import json

import numpy as np
import pytest

from engine.forward import Engine, Piece
from engine.reference.weights import float_profile
from tests.engine.kernels.running import engine_of, run
from tests.engine.reference.support import CHECKPOINTS, DATA, Checkpoint, load_checkpoint, to_hex

BOUND = 1e-3


@pytest.fixture(scope="module", params=CHECKPOINTS)
def checkpoint(request: pytest.FixtureRequest) -> Checkpoint:
    return load_checkpoint(request.param)


def test_prefill(checkpoint: Checkpoint) -> None:
    ids = checkpoint.golden["input_ids"].tolist()
    weights = float_profile(checkpoint.weights)
    with engine_of(checkpoint.config, weights, single_cache=True) as engine:
        found = run(engine, ids)
    logits = np.abs(found.logits - checkpoint.golden["logits"]).max()
    # The golden file's last hidden state is the one after the final norm.
    residuals = np.abs(found.residuals[:-1] - checkpoint.golden["hidden"][:-1]).max()
    largest = np.abs(found.logits).max()
    print(f"{checkpoint.config.architecture}: logits differ by {logits:.2e} of {largest:.1f}")
    assert logits < BOUND
    assert residuals < BOUND


def test_decode(checkpoint: Checkpoint) -> None:
    ids, expected = checkpoint.golden["input_ids"].tolist(), checkpoint.golden["decode_logits"]
    start = int(checkpoint.golden["decode_from"])
    chunks = [start, *[1] * len(expected), len(ids) - start - len(expected)]
    weights = float_profile(checkpoint.weights)
    with engine_of(checkpoint.config, weights, single_cache=True) as engine:
        found = run(engine, ids, [count for count in chunks if count])
    assert np.abs(found.logits[start : start + len(expected)] - expected).max() < BOUND


@pytest.mark.parametrize("single_cache", [True, False])
def test_greedy_ids(checkpoint: Checkpoint, single_cache: bool) -> None:
    expected = checkpoint.golden["greedy_ids"].tolist()
    prompt = checkpoint.golden["input_ids"].tolist()
    with engine_of(checkpoint.config, checkpoint.weights, single_cache=single_cache) as engine:
        assert greedy(engine, prompt, len(expected)) == expected


def greedy(engine: Engine, prompt: list[int], count: int) -> list[int]:
    """Return the likeliest ids after a prompt, one decode step each."""
    cache = engine.new_cache()
    found: list[int] = []
    ids = prompt
    while len(found) < count:
        result = engine.step([Piece(cache, np.array(ids, np.int32), 1)])
        ids = [int(result.logits[0].argmax())]
        found += ids
    return found


def test_the_committed_roots_and_logits() -> None:
    """The served profile over float matrices, against vectors.json: by bits."""
    vectors = json.loads((DATA / "vectors.json").read_text())["decoder"]
    assert [vector["id"] for vector in vectors] == list(CHECKPOINTS)
    for vector in vectors:
        loaded = load_checkpoint(vector["id"])
        with engine_of(loaded.config, loaded.weights) as engine:
            found = run(engine, vector["ids"])
        assert found.root.hex() == vector["trace_root"]
        assert to_hex(found.logits[-1]) == vector["last_logits"]
