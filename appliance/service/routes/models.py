"""`/v1/models`: the one model that is served."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify

from appliance.api.answers import Object, model_object, models
from appliance.api.errors import model_not_found
from appliance.service.endpoint import current_service, endpoint
from appliance.service.readiness import Readiness

BLUEPRINT = Blueprint("models", __name__)


@BLUEPRINT.get("/v1/models")
@endpoint("models", ready=True)
def list_models() -> Response:
    """List it."""
    return jsonify(models([_served()]))


@BLUEPRINT.get("/v1/models/<path:name>")
@endpoint("models", ready=True)
def one_model(name: str) -> Response:
    """Describe it, by its name."""
    served = current_service().model_name
    if name != served:
        raise model_not_found(name, [served])
    return jsonify(_served())


def _served() -> Object:
    service = current_service()
    model = service.model
    if model is None:
        raise Readiness.error(service.state.reasons[0])
    return model_object(
        service.model_name,
        created=service.started_ms // 1000,
        owned_by=service.settings.attest.issuer,
        model_digest=model.model_digest,
        context_length_tokens=model.engine.max_positions,
    )
