"""What answers, put together: engine thread, attestations, idle checkpoints, and their end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from appliance.service.attestations import AttestationStore
from appliance.service.idle import IdleCheckpoints
from appliance.service.stall import StallWatch
from engine.errors import WeightsError, WeightsUncheckedError

if TYPE_CHECKING:
    from appliance.service.service import Service
    from appliance.service.worker import EngineWorker

_END_S: Final = 10.0
"""How long answers that were cancelled have to be closed."""


def connect(service: Service) -> None:
    """Have the service answer from `begin` on, once."""
    service.on_begin.append(_begin)


def _begin(service: Service) -> None:
    """Start what answers.

    Raises:
        ValueError: model, log or attestor are not there.
    """
    # They import numba, whose settings are made before.
    from appliance.service.answering import Answering, AnswerLimits  # noqa: PLC0415
    from appliance.service.job import Cause  # noqa: PLC0415
    from appliance.service.worker import EngineWorker  # noqa: PLC0415
    from engine.scheduler import Scheduler  # noqa: PLC0415

    model, log, attestor = service.model, service.log, service.attestor
    if model is None or log is None or attestor is None:
        raise ValueError("nothing can be answered without model, log and attestor")
    settings, limits = service.settings.model, service.settings.limits

    def stopped(error: BaseException) -> None:
        if isinstance(error, WeightsError):
            service.metrics.weight_failures.inc()
            service.state.failed("integrity", "the weights no longer verify")
        elif isinstance(error, WeightsUncheckedError):
            service.state.failed("weights", "the weights cannot be read any more")
        else:
            service.state.failed("engine", "the engine has stopped")

    def failed(code: str, message: str) -> None:
        if code != "integrity":  # counted once where it happened, not by each request that it ended
            service.metrics.attestation_failures.inc()
        service.state.failed(code, message)

    worker = EngineWorker(
        Scheduler(
            model.engine,
            prefill_tokens=settings.prefill_tokens,
            max_running=settings.max_running,
        ),
        model.tokenizer,
        max_running=settings.max_running,
        max_queued=limits.max_queued,
        on_failure=stopped,
        on_step=service.metrics.step.observe,
    )
    service.on_stop.append(worker.stop)
    stalled = f"a step of the engine has taken more than {limits.step_s} s: start the service again"
    watch = StallWatch(
        worker,
        limit_s=limits.step_s,
        on_stall=lambda: service.state.failed("engine", stalled),
    )
    service.on_stop.append(watch.stop)
    attestations = AttestationStore(
        log, max_bytes=limits.bundle_store_bytes, ttl_s=limits.bundle_ttl_s
    )
    answering = Answering(
        model=model,
        model_name=service.model_name,
        log=log,
        attestor=attestor,
        worker=worker,
        attestations=attestations,
        rates=service.limits,
        limits=AnswerLimits(limits.default_max_tokens, limits.queue_s, limits.request_s),
        on_failure=failed,
    )
    service.on_stop.append(answering.stop)
    if limits.idle_checkpoint_s:
        idle = IdleCheckpoints(log, interval_s=limits.idle_checkpoint_s)
        service.on_stop.append(idle.stop)

    def drain(seconds: float) -> None:
        worker.wait_empty(seconds)

    def cancel() -> None:
        worker.cancel_all(Cause.DRAIN)
        worker.wait_empty(_END_S)

    service.on_drain.append(drain)
    service.on_cancel.append(cancel)
    # What is left at the end is cancelled and closed before the threads end.
    service.on_stop.append(cancel)
    _add_gauges(service, worker)
    service.worker, service.attestations, service.answering = worker, attestations, answering


def _add_gauges(service: Service, worker: EngineWorker) -> None:
    """Show the worker's numbers."""
    gauge = service.metrics.gauge
    gauge("running", "Requests on the engine", lambda: worker.numbers.running)
    gauge("queued", "Requests that wait for the engine", lambda: worker.numbers.queued)
    gauge("places", "Requests let in and not closed", lambda: worker.numbers.places)
    gauge("steps", "Steps of the engine", lambda: worker.numbers.steps)
    engine = None if service.model is None else service.model.engine
    gauge(
        "layers", "Layers begun, also within a step", lambda: engine.layers_begun if engine else 0
    )
    gauge("mismatches", "Steps with unknown requests", lambda: worker.numbers.mismatches)
