"""The thread that computes: hands on, stops, cancels, gives up, and fails as a whole."""

from __future__ import annotations

import pytest

from appliance.api.errors import ApiError
from appliance.service.job import Cause, Deadlines, Ended
from appliance.service.worker import EngineWorker
from engine.admission import DEV
from engine.errors import NonFiniteError
from engine.forward import Engine
from engine.generate import generate
from engine.model import Model
from engine.sampling.parameters import SamplingParameters
from engine.scheduler import Scheduler
from engine.sequence import FinishReason, Request
from tests.engine.kernels.models import MemoryWeights, random_weights, small_config

PROMPT = (5, 6, 7, 8)
GREEDY = SamplingParameters(temperature_millionths=0)


def worker_of(model, **changes) -> EngineWorker:
    arguments = {"max_running": 2, "max_queued": 2} | changes
    scheduler = Scheduler(model.engine, max_running=arguments["max_running"])
    return EngineWorker(scheduler, model.tokenizer, **arguments)


def drained(job) -> tuple[list[int], Ended]:
    ids = []
    while not isinstance(event := job.next(60), Ended):
        assert event is not None
        ids.append(event.id)
    return ids, event


def test_tokens_come_one_by_one_and_then_the_end(tiny_model):
    request = Request(PROMPT, 6, GREEDY)
    with worker_of(tiny_model) as worker:
        place = worker.reserve()
        job = worker.submit(place, request)
        ids, ended = drained(job)
        place.release()
        assert worker.numbers.places == 0
    alone = generate(tiny_model, request)
    assert tuple(ids) == ended.output_ids == alone.token_ids
    assert ended.find_trace_root() == alone.trace_root
    assert (ended.reason, ended.cause, ended.error) == (FinishReason.LENGTH, None, None)
    assert job.wait() is ended
    numbers = worker.numbers
    assert numbers.steps >= 6
    assert (numbers.prompt_tokens, numbers.generated_tokens) == (4, 6)
    assert (numbers.first_tokens, numbers.mismatches) == (1, 0)
    assert numbers.step_s > 0 < numbers.first_token_s


def test_places_are_counted_once(tiny_model):
    with worker_of(tiny_model, max_running=1, max_queued=1) as worker:
        places = [worker.reserve(), worker.reserve()]
        with pytest.raises(ApiError) as caught:
            worker.reserve()
        assert caught.value.headers()["Retry-After"] == "5"
        places[0].release()
        places[0].release()
        assert worker.numbers.places == 1
        with pytest.raises(ValueError, match="given back"):
            worker.submit(places[0], Request(PROMPT, 1))
        worker.reserve().release()


def test_a_request_without_room_to_begin_waits_for_its_turn(tiny_model):
    with worker_of(tiny_model, max_running=1, max_queued=8) as worker:
        jobs = [worker.submit(worker.reserve(), Request(PROMPT, 4, GREEDY)) for _ in range(5)]
        assert len({drained(job)[1].output_ids for job in jobs}) == 1


def test_the_first_cause_of_an_end_stays(tiny_model):
    with worker_of(tiny_model) as worker:
        job = worker.submit(worker.reserve(), Request(PROMPT, 400, GREEDY))
        job.next(60)
        job.cancel(Cause.CLIENT)
        job.cancel(Cause.DRAIN)
        ended = job.wait()
        assert (ended.reason, ended.cause) == (FinishReason.CANCELLED, Cause.CLIENT)
        assert 1 <= len(ended.output_ids) < 400


@pytest.mark.parametrize(
    ("deadlines", "most"),
    [(Deadlines(first_token=0.0), 0), (Deadlines(end=0.0), 0), (Deadlines(first_token=1.0), 3)],
)
def test_deadlines(tiny_model, deadlines, most):
    with worker_of(tiny_model, clock=lambda: 0.5) as worker:
        job = worker.submit(worker.reserve(), Request(PROMPT, 3, GREEDY), deadlines=deadlines)
        ids, ended = drained(job)
        assert len(ids) == most
        assert ended.cause is (None if most else Cause.DEADLINE)


def test_what_the_scheduler_refuses_comes_out_of_the_job(tiny_model):
    with worker_of(tiny_model) as worker:
        job = worker.submit(worker.reserve(), Request(PROMPT, 100_000))
        _, ended = drained(job)
        assert ended.reason is FinishReason.ERROR
        assert "context" in str(ended.error)
        assert drained(worker.submit(worker.reserve(), Request(PROMPT, 2)))[1].is_whole


def test_weights_that_are_not_finite_end_their_request_alone(tiny_model):
    config = small_config(tied_embeddings=False, vocab_size=64)
    weights = random_weights(config, ("F32", "Q8_0"), seed=1)
    weights["embedding"].fields["w"][7, 3] = float("inf")
    engine = Engine(MemoryWeights(config, weights), num_threads=1, max_rows=64, max_outputs=4)
    avoid = SamplingParameters(temperature_millionths=0, logit_bias_millionths=((7, -100_000_000),))
    scheduler = Scheduler(engine, max_running=2)
    worker = EngineWorker(scheduler, tiny_model.tokenizer, max_running=2, max_queued=2)
    with worker:
        good = worker.submit(worker.reserve(), Request((1, 2, 3), 20, avoid))
        bad = worker.submit(worker.reserve(), Request((9, 7, 9), 20, avoid))
        _, ended = drained(bad)
        assert isinstance(ended.error, NonFiniteError)
        assert ended.find_trace_root() is not None
        assert drained(good)[1].is_whole
        assert worker.failure is None
    engine.close()


def test_a_step_that_raises_ends_everything(tiny_file):
    failures = []
    with Model(tiny_file, policy=DEV, num_threads=1, max_positions=512, max_rows=64) as model:
        worker = worker_of(model, on_failure=failures.append, max_running=1)
        place = worker.reserve()
        jobs = [worker.submit(place, Request(PROMPT, 400, GREEDY)) for _ in range(2)]
        jobs[0].next(60)
        # The next step finds no cache where its keys and values were.
        model.engine.blocks = None
        ends = [job.wait() for job in jobs]
        assert [ended.reason for ended in ends] == [FinishReason.ERROR] * 2
        assert len(ends[0].output_ids) < 400
        worker._thread.join(60)
        assert failures == [worker.failure]
        for refused in (worker.reserve, lambda: worker.submit(place, Request(PROMPT, 1))):
            with pytest.raises(ApiError) as caught:
                refused()
            assert caught.value.code == "engine_error"
        worker.stop()


def test_stop_ends_what_runs_and_refuses_what_comes(tiny_model):
    worker = worker_of(tiny_model, max_running=1)
    place = worker.reserve()
    jobs = [worker.submit(place, Request(PROMPT, 400, GREEDY)) for _ in range(2)]
    jobs[0].next(60)
    worker.stop()
    assert [job.wait().cause for job in jobs] == [Cause.DRAIN] * 2
    assert jobs[1].wait().output_ids == ()
    with pytest.raises(ApiError) as caught:
        worker.reserve()
    assert caught.value.code == "not_ready"


def test_a_sequence_that_is_not_ours_is_noticed(tiny_model):
    scheduler = Scheduler(tiny_model.engine, max_running=2)
    worker = EngineWorker(scheduler, tiny_model.tokenizer, max_running=2, max_queued=0)
    stranger = scheduler.add(Request(PROMPT, 3, GREEDY))
    with worker:
        drained(worker.submit(worker.reserve(), Request(PROMPT, 2, GREEDY)))
        assert worker.numbers.mismatches > 0
        while not stranger.is_finished:
            drained(worker.submit(worker.reserve(), Request(PROMPT, 1, GREEDY)))
