"""`/metrics`: numbers for Prometheus."""

from __future__ import annotations

from flask import Blueprint, Response

from appliance.service.endpoint import current_service, endpoint
from appliance.service.metrics import CONTENT_TYPE

BLUEPRINT = Blueprint("metrics", __name__)


@BLUEPRINT.get("/metrics")
@endpoint("metrics")
def metrics() -> Response:
    """Return all numbers in the text format."""
    return Response(current_service().metrics.text(), content_type=CONTENT_TYPE)
