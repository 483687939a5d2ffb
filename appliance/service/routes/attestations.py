"""`/v1/attestations/{id}`: what proves an answer, for the principal that asked for it."""

from __future__ import annotations

import base64
from typing import Final

from flask import Blueprint, Response, jsonify, request

from appliance.api.errors import not_found, not_ready, refused
from appliance.log.errors import LogDamageError, LogUnavailableError
from appliance.service.attestations import Attestation, AttestationStore
from appliance.service.endpoint import current_principal, current_service, endpoint

BLUEPRINT = Blueprint("attestations", __name__)
CBOR: Final = "application/cbor"

_RETRY_AFTER_S: Final = 5


@BLUEPRINT.get("/v1/attestations/<name>")
@endpoint("attestations", query=("format",))
def attestation(name: str) -> Response:
    """Return statement and bundle, or the bundle alone as it is."""
    is_raw = _is_raw()
    store: AttestationStore | None = current_service().attestations
    if store is None:
        raise not_ready("the service is starting", _RETRY_AFTER_S)
    try:
        found = store.find(name, current_principal().id)
    except (LogUnavailableError, LogDamageError, OSError) as error:
        if isinstance(error, LogUnavailableError) and error.reason == "archive":
            raise not_found("attestation here: its part of the log is in the archive") from None
        raise not_ready("the log cannot be read", _RETRY_AFTER_S) from error
    if found is None:
        raise not_found("attestation")
    return _bundle(found) if is_raw else _json(found)


def _is_raw() -> bool:
    form = request.args.get("format")
    if form is None:
        accepted = request.accept_mimetypes
        return accepted.best_match(["application/json", CBOR]) == CBOR
    if form not in ("json", "bundle"):
        raise refused("invalid_value", "format is json or bundle", "format")
    return form == "bundle"


def _bundle(found: Attestation) -> Response:
    if found.bundle is None:
        raise not_found("bundle any more; the statement is there, with format=json")
    response = Response(found.bundle, mimetype=CBOR)
    response.headers["Content-Disposition"] = f'attachment; filename="{found.id}.bundle"'
    return response


def _json(found: Attestation) -> Response:
    return jsonify(
        id=found.id,
        object="attestation",
        sequence=found.sequence,
        log_id=_log_id(),
        statement=_base64(found.statement),
        bundle=None if found.bundle is None else _base64(found.bundle),
    )


def _log_id() -> str | None:
    log = current_service().log
    return None if log is None else log.log_id.hex()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
