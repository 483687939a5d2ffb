"""`/v1/chat/completions` and `/v1/completions`: text, whole or as a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flask import Blueprint, Response

from appliance.api.answers import to_json
from appliance.api.parsed import CHAT_PATH, COMPLETIONS_PATH
from appliance.service import sse
from appliance.service.asked import ATTESTATION_HEADER
from appliance.service.endpoint import (
    client_is_gone,
    current_answering,
    current_asked,
    current_service,
    endpoint,
)

if TYPE_CHECKING:
    from appliance.service.answering import Running

BLUEPRINT = Blueprint("chat", __name__)


@BLUEPRINT.post(CHAT_PATH, endpoint="chat")
@BLUEPRINT.post(COMPLETIONS_PATH, endpoint="completions")
@endpoint("generate", body=True, ready=True)
def generate() -> Response:
    """Answer; nothing leaves before the admission is durable."""
    running = current_answering().begin(current_asked())
    if running.parsed.stream:
        return _streamed(running, current_service().settings.server.ping_s)
    from appliance.service.stream import whole_answer  # noqa: PLC0415  (imports numba)

    response = Response(
        to_json(whole_answer(running, client_is_gone())), mimetype="application/json"
    )
    response.headers[ATTESTATION_HEADER] = running.attestation
    return response


def _streamed(running: Running, ping_s: float) -> Response:
    from appliance.service.stream import AnswerStream  # noqa: PLC0415  (imports numba)

    stream = AnswerStream(running, ping_s=ping_s, is_gone=client_is_gone())
    response = Response(stream, content_type=sse.CONTENT_TYPE)
    response.headers["X-Accel-Buffering"] = "no"
    response.headers[ATTESTATION_HEADER] = running.attestation
    return response
