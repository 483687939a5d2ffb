"""A step of the engine that does not return: said, attested, and nothing is answered any more."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING

import pytest

from appliance.api.errors import ApiError
from appliance.service.job import Ended
from appliance.service.stall import StallWatch
from appliance.service.worker import EngineWorker
from engine.sampling.parameters import SamplingParameters
from engine.scheduler import Scheduler
from engine.sequence import FinishReason, Request
from tests.appliance.cli.test_serve import DEV
from tests.appliance.failures import running as case
from tests.appliance.failures.running import assert_closed, log_is_whole, make_site, reasons

if TYPE_CHECKING:
    from pathlib import Path

    from engine.model import Model

HANG = """
from appliance.service import connect
import engine.scheduler
class Hung(engine.scheduler.Scheduler):
    made = 0
    def step(self):
        progress = super().step()
        self.made += 1
        while self.made == 30:
            __import__("time").sleep(1)
        return progress
real = connect._begin
def begin(service):
    engine.scheduler.Scheduler = Hung
    real(service)
connect._begin = begin
"""


class Hanging(Scheduler):
    """A scheduler whose third step waits until it may go on."""

    steps = 0

    def step(self):  # the same as the scheduler's
        progress = super().step()
        self.steps += 1
        if self.steps == 3:
            self.is_free.wait(60)
        return progress


def test_requests_end_with_an_error_and_none_is_taken(tiny_model: Model) -> None:
    scheduler = Hanging(tiny_model.engine, max_running=2)
    scheduler.is_free = threading.Event()
    failures: list[str] = []
    worker = EngineWorker(
        scheduler, tiny_model.tokenizer, max_running=2, max_queued=2,
        on_failure=lambda error: failures.append(type(error).__name__),
    )  # fmt: skip
    watch = StallWatch(worker, limit_s=0.3, on_stall=lambda: failures.append("said"))
    greedy = SamplingParameters(temperature_millionths=0)
    jobs = [
        worker.submit(worker.reserve(), Request((5, 6, 7), 50, greedy, (), grammar=None))
        for _ in range(3)
    ]
    for job in jobs:
        ended = job.wait()
        assert (ended.reason, ended.find_trace_root()) == (FinishReason.ERROR, None)
        assert len(ended.output_ids) <= 3
    assert failures == ["said", "EngineError"]
    with pytest.raises(ApiError) as caught:
        worker.reserve()
    assert caught.value.code == "engine_error"
    scheduler.is_free.set()
    worker.stop()
    watch.stop()
    # what the step had computed in the end is not handed on
    events = []
    while (event := jobs[0].next(0)) is not None:
        events.append(event)
    assert not any(isinstance(event, Ended) for event in events[:-1])
    for sequence in (job.sequence for job in jobs):
        if sequence is not None and not sequence.is_finished:
            sequence.finish(FinishReason.CANCELLED)  # the engine is shared


def test_a_worker_that_is_idle_or_quick_is_left_alone(tiny_model: Model) -> None:
    stalls: list[str] = []
    with EngineWorker(
        Scheduler(tiny_model.engine, max_running=2), tiny_model.tokenizer,
        max_running=2, max_queued=2,
    ) as worker:  # fmt: skip
        watch = StallWatch(worker, limit_s=5, on_stall=lambda: stalls.append("said"))
        worker.submit(worker.reserve(), Request((5, 6, 7), 5)).wait()
        assert worker.step_s == 0
        watch.stop()
    assert stalls == []


@pytest.mark.slow
@pytest.mark.ci
def test_a_service_whose_engine_hangs(
    tmp_path: Path, tiny_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = make_site(tmp_path, tiny_file)
    text = site.configure(DEV).read_text()
    site.path("appliance.toml").write_text(text + "[limits]\nstep_s = 1\n")
    monkeypatch.setattr(case, "PROGRAM", case.PROGRAM.replace("import sys", "import sys" + HANG, 1))
    with case.running(site) as service:
        events = list(service.events(max_tokens=100))
        error = json.loads(events[-1])["error"]
        assert error["code"] == "engine_error"
        announced = json.loads(events[0])["announced"]
        found = service.get(f"/v1/attestations/{announced}").json()
        assert found["statement"]
        why = reasons(service.wait_for(503))
        assert why == {
            "engine": "a step of the engine has taken more than 1 s: start the service again"
        }
        assert_closed(service.ask())
        assert service.get("/health").status_code == 200
        begun = time.monotonic()
        exit_code, err = service.end()
        assert exit_code == 0, err
        assert time.monotonic() - begun < 60
    assert log_is_whole(site)["open_admissions"] == 0
