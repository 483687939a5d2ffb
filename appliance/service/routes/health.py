"""`/health`: the process answers. `/ready`: requests are answered, or why not."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify

from appliance.service.endpoint import PUBLIC, current_service, endpoint
from appliance.service.readiness import RETRY_AFTER_S

BLUEPRINT = Blueprint("health", __name__)


@BLUEPRINT.get("/health")
@endpoint(PUBLIC)
def health() -> Response:
    """Say that the process answers; waits for nothing and nobody."""
    return jsonify(status="ok")


@BLUEPRINT.get("/ready")
@endpoint(PUBLIC)
def ready() -> Response:
    """Say whether requests are answered: 200, or 503 with reasons as codes and lines."""
    service = current_service()
    service.look()
    state = service.state
    reasons = [{"code": each.code, "message": each.message} for each in state.reasons]
    response = jsonify(status=state.phase, ready=state.is_ready, reasons=reasons)
    if reasons:
        response.status_code = 503
        response.headers["Retry-After"] = str(RETRY_AFTER_S)
    return response
