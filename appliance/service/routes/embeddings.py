"""`/v1/embeddings`: texts become vectors, all in one answer."""

from __future__ import annotations

from flask import Blueprint, Response

from appliance.api.answers import to_json
from appliance.api.parsed import EMBEDDINGS_PATH
from appliance.service.asked import ATTESTATION_HEADER
from appliance.service.endpoint import client_is_gone, current_answering, current_asked, endpoint

BLUEPRINT = Blueprint("embeddings", __name__)


@BLUEPRINT.post(EMBEDDINGS_PATH)
@endpoint("embeddings", body=True, ready=True)
def embeddings() -> Response:
    """Answer; nothing leaves before the statement is durable."""
    embedding = current_answering().embed(current_asked())
    answer = to_json(embedding.whole(client_is_gone()))
    response = Response(answer, mimetype="application/json")
    response.headers[ATTESTATION_HEADER] = embedding.attestation
    return response
