"""`/v1/status`: the state of everything, for the operator's page."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Final

from flask import Blueprint, Response, jsonify

from appliance.cli.errors import describe
from appliance.facts import facts_of
from appliance.service.endpoint import current_service, endpoint
from appliance.service.key_protection import key_protection
from appliance.service.service import Service

BLUEPRINT = Blueprint("status", __name__)

_STATM: Final = Path("/proc/self/statm")


@BLUEPRINT.get("/v1/status")
@endpoint("status")
def status() -> Response:
    """Return it; nothing of any request, and no secret."""
    service = current_service()
    service.look()
    now_ms = time.time_ns() // 1_000_000
    report = service.report
    return jsonify(
        state=service.state.phase,
        ready=service.state.is_ready,
        reasons=[{"code": each.code, "message": each.message} for each in service.state.reasons],
        time_ms=now_ms,
        started_ms=service.started_ms,
        uptime_s=(now_ms - service.started_ms) // 1000,
        mode=service.settings.mode,
        issuer=service.settings.attest.issuer,
        model=_model(service),
        log=_log(service),
        key_protection=key_protection(),
        keys={"active": service.keys.num_active, "failure": service.keys.failure},
        requests=_requests(service),
        memory={"resident_bytes": resident_bytes()},
        start=None if report is None else report.as_json(),
        access_log_lines_lost=service.access_log.lost,
        errors=list(service.errors),
    )


def resident_bytes() -> int | None:
    """Return how much memory the process has now; None where the system does not say."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def _model(service: Service) -> dict[str, Any]:
    model = service.model
    named = {"name": service.model_name, "file": service.settings.model.file.name}
    if model is None:
        return named
    facts = facts_of(model)
    lock = None if service.report is None else service.report.lock
    return named | {
        "model_digest": facts.model_digest.hex(),
        "verdict": facts.load_verdict,
        "line": facts.line,
        "release": facts.release,
        "numerics": facts.numerics,
        "kernel_path": facts.kernel_path,
        "residency": facts.residency,
        "write_xor_execute": "open" if lock is None else lock.state,
        "layers": facts.num_layers,
        "context_tokens": model.engine.max_positions,
        "resident_bytes": model.resident_bytes,
    }


def _log(service: Service) -> dict[str, Any] | None:
    log = service.log
    if log is None:
        return None
    head = log.head
    return {
        "state": log.state,
        "failure": None if log.failure is None else describe(log.failure).message,
        "log_id": log.log_id.hex(),
        "size": head.size,
        "root": head.root.hex(),
        "time_ms": head.time_ms,
        "open_admissions": len(log.files.last.growth.open_admissions),
        "segments_away": log.files.away,
    }


def _requests(service: Service) -> dict[str, Any]:
    limits, model = service.settings.limits, service.settings.model
    registry = service.metrics.registry
    total = {
        name: int(registry.get_sample_value(f"windhover_{name}_total") or 0)
        for name in ("prompt_tokens", "generated_tokens", "cached_tokens", "disconnects")
    }
    numbers = None if service.worker is None else service.worker.numbers
    return total | {
        "running": None if numbers is None else numbers.running,
        "queued": None if numbers is None else numbers.queued,
        "open": service.limits.num_running,
        "max_running": model.max_running,
        "max_queued": limits.max_queued,
        "body_bytes": limits.body_bytes,
        "default_max_tokens": limits.default_max_tokens,
        "request_s": limits.request_s,
        "queue_s": limits.queue_s,
        "bundle_ttl_s": limits.bundle_ttl_s,
    }
