"""`/v1/embeddings`: read and judged as every request; no model is served yet that makes vectors."""

from __future__ import annotations

from typing import NoReturn

from flask import Blueprint

from appliance.api.errors import model_not_found, refused
from appliance.api.parse import parse_request
from appliance.api.parsed import EMBEDDINGS_PATH
from appliance.service.endpoint import current_service, endpoint, request_body

BLUEPRINT = Blueprint("embeddings", __name__)


@BLUEPRINT.post(EMBEDDINGS_PATH)
@endpoint("embeddings", body=True, ready=True)
def embeddings() -> NoReturn:
    """Refuse: what is wrong with the request is said first.

    Raises:
        ApiError, RequestError: always.
    """
    service = current_service()
    parsed = parse_request(EMBEDDINGS_PATH, request_body())
    if parsed.model != service.model_name:
        raise model_not_found(parsed.model, [service.model_name])
    raise refused(
        "unsupported_parameter", "this model makes no vectors of texts; it answers them", "model"
    )
