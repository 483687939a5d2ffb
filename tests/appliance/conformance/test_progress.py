"""A slow prompt is seen to move: in the numbers, and in what is told to who has to wait."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families

pytestmark = [pytest.mark.slow, pytest.mark.ci]


@contextmanager
def held(stage, num_clients):
    """Hold the engine, and have clients; whatever happens, it goes on in the end."""
    stage.hold()
    with ThreadPoolExecutor(num_clients) as pool:
        try:
            yield pool
        finally:
            stage.let_go()


def numbers(stage):
    """Return every number of /metrics that has no label."""
    text = stage.get("/metrics").text
    families = text_string_to_metric_families(text)
    return {s.name: s.value for family in families for s in family.samples if not s.labels}


def wait_for(stage, name, value):
    """Return all numbers once one of them is there."""
    deadline = time.monotonic() + 20
    while (found := numbers(stage))[name] != value and time.monotonic() < deadline:
        time.sleep(0.01)
    assert found[name] == value
    return found


def test_a_slow_prompt_moves_in_metrics_and_status_before_its_first_token(stage):
    with held(stage, 1) as pool:
        # 32 tokens of a prompt in one step
        answer = pool.submit(stage.ask, messages=[{"role": "user", "content": "why " * 50}])
        for step in range(1, 4):
            stage.allow()
            found = wait_for(stage, "windhover_steps", step)
            assert found["windhover_running"] == 1
            assert found["windhover_step_seconds_count"] == step
            assert found["windhover_generated_tokens_total"] == 0
            requests = stage.get("/v1/status").json()["requests"]
            assert (requests["running"], requests["queued"]) == (1, 0)
            assert not answer.done()
        stage.let_go()
        assert answer.result().usage.prompt_tokens > 96


def test_who_is_refused_is_told_how_long_the_others_take_and_health_answers(stage):
    for _ in range(2):  # so that the service knows how long an answer takes
        stage.ask()
    with held(stage, 3) as pool:
        waiting = [pool.submit(stage.ask, seed=seed) for seed in range(3)]
        wait_for(stage, "windhover_places", 3)
        for stream in (False, True):
            with pytest.raises(openai.InternalServerError) as caught:
                stage.ask(stage.client(max_retries=0), stream=stream)
            assert (caught.value.status_code, caught.value.code) == (503, "overloaded")
            seconds = int(caught.value.response.headers["retry-after"])
            assert 1 <= seconds <= 300
            assert f"about {seconds} seconds" in caught.value.message
        for path in ("/health", "/ready"):
            assert stage.get(path).status_code == 200
        stage.let_go()
        assert all(each.result().choices for each in waiting)
