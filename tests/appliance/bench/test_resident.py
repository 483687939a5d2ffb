"""Runs in a cgroup: what is refused, and what a whole one says."""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.bench import resident
from appliance.bench.cgroup import NotMeasurableError, memory_group
from appliance.bench.charge import Charge
from appliance.bench.disk import Disk
from appliance.bench.evidence import read_evidence
from appliance.bench.memory_plan import MemoryPlan
from appliance.bench.memory_run import SCHEMA, MemoryRun
from appliance.bench.resident import check_run, measure_memory
from appliance.cli.errors import describe
from engine.errors import ConfigError
from engine.memory.residency import Residency
from engine.synth.shapes import shape_named
from engine.synth.synthesize import synthesize
from tests.structure.source import CHECKOUT

README = (CHECKOUT / "appliance/bench/README.md").read_text(encoding="utf-8")
TIMES = {"median", "min", "max", "rounds"}


def documented(schema: str) -> set[str]:
    """Return the names in the part of the README about the fields of a schema."""
    part = re.split(r"^## ", README.partition(schema)[2], flags=re.MULTILINE)[0]
    return set(re.findall(r"`([a-z_0-9.]+)`", part))


def names_in(value: object, free: tuple[str, ...], before: str = "") -> Iterator[str]:
    """Yield the names of an object's fields, those of objects in lists too.

    The names in the objects whose own name is in `free` are content.
    """
    if isinstance(value, list):
        for each in value:
            yield from names_in(each, free, before)
    if isinstance(value, Mapping):
        for name, content in value.items():
            if before not in free:
                yield name
            yield from names_in(content, free, name)


def require_group(folder: Path) -> None:
    """Skip where no memory cgroup is permitted, or files are in memory anyway."""
    if Disk.of(folder).device is None:
        pytest.skip("a run in a cgroup needs a file on a disk: none here")
    try:
        memory_group(1 << 30).__enter__().close()
    except NotMeasurableError as error:
        pytest.skip(f"a real memory cgroup is not permitted here: {error}")


@pytest.fixture
def plan(tiny_vqf: Path) -> MemoryPlan:
    """A short run of a tiny model."""
    return MemoryPlan(
        tiny_vqf, Residency(drop_page_cache=True), context=40, chunk=16, tokens=4, threads=1
    )


KV_BUDGET = 4_000_000
"""Of a cache of 9.4 MB: three blocks in memory, and buffers for a layer of the others."""


def refusal(plan: MemoryPlan, peak: Charge, outcome: str = "answered", **pages: int) -> str | None:
    """Return the reason for which a run is refused."""
    known = {"before": 0, "after": 0, "charged_after": 0, **pages}
    try:
        check_run(plan, peak, outcome, **known)
    except NotMeasurableError as error:
        return error.reason
    return None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokens": 0}, "at least one token"),
        ({"chunk": 0}, "at least one token"),
        ({"context": 4}, "has no room for 4 tokens"),
        ({"state": "cached"}, "cannot be dropped"),
    ],
)
def test_plans_that_cannot_be(plan: MemoryPlan, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        replace(plan, **change)


def test_swap_is_refused(plan: MemoryPlan) -> None:
    assert refusal(plan, Charge(swap=1)) == "swap"
    assert refusal(plan, Charge(swap=1), "killed") == "swap"


def test_pages_elsewhere_are_refused(plan: MemoryPlan) -> None:
    assert refusal(plan, Charge(), after=10 << 20, charged_after=9 << 20) is None
    assert refusal(plan, Charge(), after=10 << 20, charged_after=7 << 20) == "resident"
    assert refusal(plan, Charge(), "killed", after=10 << 20) is None


def test_pages_that_left_are_refused(plan: MemoryPlan) -> None:
    cached = replace(plan, state="cached", residency=Residency())
    assert refusal(cached, Charge(), before=5_000_000, after=4_950_000) is None
    assert refusal(cached, Charge(), before=5_000_000, after=4_949_999) == "cache"


def test_a_file_that_others_use_is_refused(plan: MemoryPlan) -> None:
    require_group(plan.file.parent)
    with (
        plan.file.open("rb") as file,
        mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as memory,
    ):
        assert sum(memory[::4096]) > 0
        with pytest.raises(NotMeasurableError, match="others use it") as caught:
            measure_memory(plan)
    failure = describe(caught.value)
    assert (failure.exit_code, failure.reason) == (3, "resident")


def test_too_little_memory_for_a_cached_file(
    plan: MemoryPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident, "available_bytes", lambda: 0)
    with pytest.raises(NotMeasurableError) as caught:
        measure_memory(replace(plan, state="cached", residency=Residency()))
    assert caught.value.reason == "memory"


def test_no_file(plan: MemoryPlan) -> None:
    with pytest.raises(FileNotFoundError):
        measure_memory(replace(plan, file=plan.file.parent / "absent.vqf"))


def test_what_counts(plan: MemoryPlan) -> None:
    facts: dict[str, Any] = {"model_digest": "ab" * 32}
    peak = Charge(whole=100, page_cache=60, mapped=30)
    run = MemoryRun(
        plan, "killed", 2, "plain", 10, 0, 0, peak, {"load": peak}, 3, 40, 7, facts,
        Disk(None, None, None, None),
    )  # fmt: skip
    evidence = run.as_json()
    assert evidence["memory"]["counted_bytes"] == 140
    assert evidence["timings"]["s_per_token"] is None
    assert re.fullmatch(r"memory-tiny-full-bounded-c40-k1-\d{8}T\d{6}Z\.json", run.evidence_name)


@pytest.mark.slow
@pytest.mark.ci
def test_a_whole_run(plan: MemoryPlan, tmp_path: Path) -> None:
    require_group(plan.file.parent)
    bounded = measure_memory(plan)
    streamed = replace(plan, residency=Residency("verified-stream", drop_page_cache=True))
    runs = [bounded, measure_memory(streamed)]
    cached = replace(plan, state="cached", residency=Residency())
    runs.append(measure_memory(cached))
    for run in runs:
        assert run.outcome == "answered"
        assert set(run.phases) == {"load", "prefill", "decode"}
        assert run.peak.whole <= run.plan.limit_bytes
        assert run.counted_bytes > run.peak.whole
        assert run.facts["token_ids"] == bounded.facts["token_ids"]
        assert run.facts["trace_root"] == bounded.facts["trace_root"]
        assert len(run.facts["steps_s"]) == 3
    assert bounded.resident_before == 0
    assert runs[-1].resident_before >= plan.file.stat().st_size
    evidence = json.loads(json.dumps(bounded.as_json(), allow_nan=False))
    told = set(names_in(evidence, ("machine", "versions", "phases", "kv"))) - {"schema"}
    words = {word for name in documented(SCHEMA) for word in name.split(".")}
    assert told <= words
    assert words - told <= {"answered", "killed", "plain", "signed", "sealed", "load", "prefill",
                            "decode"}  # fmt: skip
    path = tmp_path / "evidence.json"
    path.write_text(json.dumps(evidence))
    digest = evidence["file"]["model_digest"]
    assert read_evidence(path, digest) == evidence
    with pytest.raises(ConfigError, match="another model"):
        read_evidence(path, "00" * 32)


@pytest.mark.slow
@pytest.mark.ci
def test_a_cache_that_nobody_computed_gives_the_same_from_a_file(tmp_path: Path) -> None:
    require_group(tmp_path)
    config = shape_named("smollm2-135m").config(num_layers=6, context_tokens=2048)
    synthesize(tmp_path / "deep.vqf", config)
    kept = Residency(drop_page_cache=True)
    wanted = MemoryPlan(
        tmp_path / "deep.vqf", kept, context=2048, tokens=3, chunk=8, is_synthetic=True
    )
    in_memory = measure_memory(wanted)
    in_file = measure_memory(replace(wanted, kv_budget_bytes=KV_BUDGET))
    assert in_memory.facts["kv"]["spilled_at_most"] == 0
    assert in_file.facts["kv"]["spilled_at_most"] > 0
    assert in_file.facts["kv"]["in_memory_bytes"] < KV_BUDGET
    assert in_file.facts["synthetic"]["positions"] == 31 * 64
    for name in ("token_ids", "trace_root"):
        assert in_file.facts[name] == in_memory.facts[name]
    digests = {run.facts["synthetic"]["logits_digest"] for run in (in_memory, in_file)}
    assert len(digests) == 1


@pytest.mark.slow
@pytest.mark.ci
def test_a_run_that_is_killed_or_fails(plan: MemoryPlan) -> None:
    require_group(plan.file.parent)
    killed = measure_memory(replace(plan, limit_bytes=48_000_000))
    assert killed.outcome == "killed"
    assert killed.peak.whole <= 48_000_000
    with pytest.raises(ConfigError, match="Error: "):
        measure_memory(replace(plan, context=1 << 16, tokens=8))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no evidence"),
        ("[]", "no evidence"),
        ("{}", "no evidence"),
        (" " * (1 << 21), "longer"),
    ],
)
def test_what_is_no_evidence(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "evidence.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_evidence(path, "00" * 32)
