"""`/.well-known/windhover`: what to verify answers with, for everybody.

Whoever verifies pins these values from elsewhere: here they only help to find the right ones.
"""

from __future__ import annotations

import base64
from typing import Final

from flask import Blueprint, Response, jsonify

from appliance.facts import NUMERICS
from appliance.service.endpoint import PUBLIC, current_service, endpoint
from appliance.service.readiness import Readiness
from crypto.checkpoint import CHECKPOINT_TYPE
from crypto.evidence import PROFILE_GENERATE
from crypto.statement import STATEMENT_TYPE
from engine.version import RUNTIME_VERSION

BLUEPRINT = Blueprint("well_known", __name__)

_VERSION: Final = 1


@BLUEPRINT.get("/.well-known/windhover")
@endpoint(PUBLIC)
def well_known() -> Response:
    """Return the public key, the ids and the digests that statements refer to."""
    service = current_service()
    model, log, attestor = service.model, service.log, service.attestor
    if model is None or log is None or attestor is None:
        service.look()
        raise Readiness.error(service.state.reasons[0])
    key = attestor.public_key
    release = None if model.admission.verdict is None else model.admission.verdict.release
    return jsonify(
        version=_VERSION,
        issuer=service.settings.attest.issuer,
        mode=service.settings.mode,
        model=service.model_name,
        model_digest=model.model_digest.hex(),
        line=None if release is None else release.line,
        release=None if release is None else release.release,
        log_id=log.log_id.hex(),
        attest_key_id=key.key_id.hex(),
        attest_key=base64.b64encode(key.spki_der()).decode("ascii"),
        numerics=NUMERICS,
        runtime_version=".".join(map(str, RUNTIME_VERSION)),
        formats={
            "profile": PROFILE_GENERATE,
            "statement": STATEMENT_TYPE,
            "checkpoint": CHECKPOINT_TYPE,
        },
    )
