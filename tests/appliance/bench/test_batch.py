"""The batch benchmark: what it counts, and what the command prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from appliance.bench.batch import BatchPlan, BatchResults, measure_batch
from appliance.cli.bench import command
from engine.errors import ConfigError

PLAN = BatchPlan(streams=3, prompt_tokens=5, tokens=4, threads=1, rounds=2)


def test_each_round_measures_one_stream_and_all(tiny_vqf: Path) -> None:
    done: list[tuple[int, int]] = []
    results = measure_batch(tiny_vqf, PLAN, lambda n, of: done.append((n, of)))
    assert done == [(1, 2), (2, 2)]
    assert len(results.alone) == len(results.together) == 2
    assert min(results.alone + results.together) > 0
    assert results.ratios == [b / a for a, b in zip(results.alone, results.together, strict=True)]


def test_the_result_is_the_median_of_ratios_within_rounds() -> None:
    results = BatchResults(PLAN, {}, alone=[10.0, 20.0, 5.0], together=[30.0, 20.0, 10.0])
    assert results.ratios == [3.0, 1.0, 2.0]
    assert results.ratio == 2.0
    assert results.as_json()["ratio"] == {
        "median": 2.0, "min": 1.0, "max": 3.0, "rounds": [3.0, 1.0, 2.0],
    }  # fmt: skip


def test_a_stream_of_one_token_has_nothing_to_count(tiny_vqf: Path) -> None:
    with pytest.raises(ConfigError, match="at least 2 tokens"):
        measure_batch(tiny_vqf, BatchPlan(tokens=1), lambda _n, _of: None)


def test_streams_that_never_run_together_are_refused(tiny_vqf: Path) -> None:
    plan = BatchPlan(streams=3, prompt_tokens=200, tokens=2, threads=1, rounds=1)
    with pytest.raises(ConfigError, match="ask for more tokens"):
        measure_batch(tiny_vqf, plan, lambda _n, _of: None)


@pytest.mark.parametrize("as_json", [False, True])
def test_the_command(tiny_vqf: Path, *, as_json: bool) -> None:
    words = ["batch", str(tiny_vqf), "--streams", "2", "--threads", "1", "--prompt", "3"]
    words += ["--tokens", "3", "--rounds", "1", *["--json"] * as_json]
    done = CliRunner().invoke(command, words, catch_exceptions=False)
    assert done.exit_code == 0
    if as_json:
        value = json.loads(done.stdout)
        assert (value["schema"], value["streams"]) == ("windhover-bench-batch/1", 2)
        assert len(value["ratio"]["rounds"]) == 1
    else:
        assert "tiny.vqf, 1 thread, 1 round, prompts of 3 tokens" in done.stdout
        assert "2 streams get " in done.stdout
