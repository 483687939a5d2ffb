"""`/v1/chat/completions` and `/v1/completions`: text, whole or as a stream."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from flask import Blueprint, Response, request

from appliance.api.answers import to_json
from appliance.api.errors import not_ready, refused
from appliance.api.parsed import CHAT_PATH, COMPLETIONS_PATH
from appliance.service import sse
from appliance.service.asked import ATTESTATION_HEADER, NONCE_HEADER, Asked
from appliance.service.endpoint import (
    client_is_gone,
    current_principal,
    current_record,
    current_service,
    endpoint,
    request_body,
)

if TYPE_CHECKING:
    from appliance.service.answering import Answering, Running

BLUEPRINT = Blueprint("chat", __name__)

_NONCE: Final = re.compile(r"(?:[0-9A-Fa-f]{2}){16,64}")
_RETRY_AFTER_S: Final = 5


@BLUEPRINT.post(CHAT_PATH, endpoint="chat")
@BLUEPRINT.post(COMPLETIONS_PATH, endpoint="completions")
@endpoint("generate", body=True, ready=True)
def generate() -> Response:
    """Answer; nothing leaves before the admission is durable."""
    service = current_service()
    answering: Answering | None = service.answering
    if answering is None:
        raise not_ready("the service is starting", _RETRY_AFTER_S)
    asked = Asked(
        path=request.path,
        body=request_body(),
        principal=current_principal(),
        nonce=nonce_of(request.headers.getlist(NONCE_HEADER)),
        record=current_record(),
    )
    running = answering.begin(asked)
    if running.parsed.stream:
        return _streamed(running, service.settings.server.ping_s)
    from appliance.service.stream import whole_answer  # noqa: PLC0415  (imports numba)

    response = Response(
        to_json(whole_answer(running, client_is_gone())), mimetype="application/json"
    )
    response.headers[ATTESTATION_HEADER] = running.attestation
    return response


def nonce_of(values: list[str]) -> bytes | None:
    """Return the nonce of the headers, None if there is none.

    Raises:
        ApiError: 400: it is no nonce, or there are several.
    """
    if not values:
        return None
    if len(values) > 1 or _NONCE.fullmatch(values[0]) is None:
        message = f"{NONCE_HEADER} takes 32 .. 128 hexadecimal digits, an even number, once"
        raise refused("invalid_value", message, NONCE_HEADER)
    return bytes.fromhex(values[0])


def _streamed(running: Running, ping_s: float) -> Response:
    from appliance.service.stream import AnswerStream  # noqa: PLC0415  (imports numba)

    stream = AnswerStream(running, ping_s=ping_s, is_gone=client_is_gone())
    response = Response(stream, content_type=sse.CONTENT_TYPE)
    response.headers["X-Accel-Buffering"] = "no"
    response.headers[ATTESTATION_HEADER] = running.attestation
    return response
