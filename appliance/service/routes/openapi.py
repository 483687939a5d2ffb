"""`/openapi.json`: the description of the interface."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify

from appliance.api.openapi import openapi_document
from appliance.service.endpoint import PUBLIC, current_service, endpoint

BLUEPRINT = Blueprint("openapi", __name__)


@BLUEPRINT.get("/openapi.json")
@endpoint(PUBLIC)
def openapi() -> Response:
    """Return it as OpenAPI 3.1."""
    return jsonify(openapi_document(current_service().model_name))
