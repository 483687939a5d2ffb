"""`/v1/log/...`: the newest checkpoint of the log, and proofs about its entries.

A proof reads at most two paths of the tree, each as long as the tree is high.
"""

from __future__ import annotations

import base64
import re
from typing import Final

from flask import Blueprint, Response, jsonify, request

from appliance.api.errors import not_found, refused
from appliance.log.errors import LogDamageError, LogUnavailableError
from appliance.log.log import Log
from appliance.service.endpoint import current_service, endpoint
from appliance.service.readiness import Readiness, Reason

BLUEPRINT = Blueprint("log", __name__)

_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,15}")


@BLUEPRINT.get("/v1/log/checkpoint")
@endpoint("log")
def checkpoint() -> Response:
    """Return the last checkpoint, signed, and what it says."""
    head = _log().head
    return jsonify(
        log_id=head.log_id.hex(),
        size=head.size,
        root=head.root.hex(),
        time_ms=head.time_ms,
        checkpoint=base64.b64encode(head.checkpoint).decode("ascii"),
    )


@BLUEPRINT.get("/v1/log/inclusion")
@endpoint("log", query=("index", "size"))
def inclusion() -> Response:
    """Return the path from an entry to the root of the tree of `size` entries."""
    files, index = _log().files, _number("index")
    size = _number("size", files.head.size)
    try:
        path, root = files.inclusion(index, size), files.root(size)
    except IndexError:
        raise not_found("entry or tree") from None
    except (LogUnavailableError, LogDamageError, OSError) as error:
        raise _cannot(error) from None
    return jsonify(
        log_id=files.log_id.hex(), index=index, size=size, root=root.hex(), inclusion=_hex(path)
    )


@BLUEPRINT.get("/v1/log/consistency")
@endpoint("log", query=("first", "second"))
def consistency() -> Response:
    """Return what shows that the tree of `second` entries extends that of `first`."""
    files, first = _log().files, _number("first")
    second = _number("second", files.head.size)
    try:
        path = files.consistency(first, second)
        roots = files.root(first), files.root(second)
    except IndexError:
        raise not_found("tree") from None
    except (LogUnavailableError, LogDamageError, OSError) as error:
        raise _cannot(error) from None
    return jsonify(
        log_id=files.log_id.hex(),
        first=first,
        second=second,
        first_root=roots[0].hex(),
        second_root=roots[1].hex(),
        consistency=_hex(path),
    )


def _log() -> Log:
    """Return the log; reading goes on where writing has stopped."""
    service = current_service()
    if service.log is None:
        reasons = service.state.reasons
        raise Readiness.error(reasons[0] if reasons else Reason("log", "there is no log yet"))
    return service.log


def _number(name: str, default: int | None = None) -> int:
    text = request.args.get(name)
    if text is None and default is not None:
        return default
    if text is None or _NUMBER.fullmatch(text) is None:
        raise refused("invalid_value", f"{name} must be a whole number in the query string", name)
    return int(text)


def _cannot(error: Exception) -> Exception:
    """Return the refusal for a log that cannot be read: away in the archive, or damaged."""
    service = current_service()
    service.note_error(type(error).__name__, "appliance/service/routes/log.py")
    away = isinstance(error, LogUnavailableError) and error.reason == "archive"
    if away:
        return not_found("entry here: its segment is in the archive")
    return Readiness.error(Reason("log", "the log cannot be read"))


def _hex(path: list[bytes]) -> list[str]:
    return [node.hex() for node in path]
