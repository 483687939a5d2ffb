"""The payloads that SPEC.md section 2 and crypto/README.md define, read by tables."""

from __future__ import annotations

import re
from collections.abc import Callable

from verifier import cbor
from verifier.errors import MalformedError

TYPE_CHECKING = False  # as of `typing`, which takes a tenth of the time to start
if TYPE_CHECKING:
    from typing import Any

Check = Callable[["Any"], bool]
Fields = dict[int, Check]
Bundle = dict[str, "Any"]
Claims = dict[int, "Any"]  # what has passed its table has the types that the table says

MAX_BUNDLE_BYTES = 32 << 20
MAX_BUNDLE_ITEMS = 1024
MAX_REQUEST_BYTES = 16 << 20
MAX_OBJECT_BYTES = 65_536
MAX_RELEASE_BYTES = 4096
MAX_NUMBER = (1 << 53) - 1
NAMES = ("request", "prompt_ids", "transcript", "output_ids", "trace")

ISSUER, LOG_ID, SEQUENCE, ADMISSION, STARTED, ENDED, NONCE = range(-70201, -70208, -1)
PROFILE, OUTCOME, PAYLOAD_DIGEST, LOAD_VERDICT, MODE = (-70208, -70209, -70211, -70212, -70213)
MODEL, LINE, RELEASE, NOT_BEFORE, EXPIRES, LEAST_RUNTIME, SUPERSEDES = range(-70101, -70107 - 1, -1)
LIST_SEQUENCE, ISSUED, KEY_IDS, MODEL_DIGESTS = range(-70121, -70124 - 1, -1)
SOFTWARE, NUMERICS, KERNEL_PATH, RESIDENCY, WRITE_XOR, PRINCIPAL = range(-70214, -70220, -1)
TOKENIZER, TEMPLATE, PARAMETERS, SEED, SEED_SOURCE, COMMITMENTS = range(-70220, -70226, -1)
COUNTS, FINISH, TRACE, TRUST, REVOCATIONS, HEAD, COVERAGE = range(-70226, -70233, -1)
REQUEST_ID, REQUEST_COMMITMENT = -70233, -70234
SIZE, ROOT, TIME, PREVIOUS = range(-70241, -70244 - 1, -1)


def _number(low: int = 0, high: int = MAX_NUMBER) -> Check:
    return lambda value: type(value) is int and low <= value <= high


def _bytes(low: int, high: int) -> Check:
    return lambda value: type(value) is bytes and low <= len(value) <= high


def _text(pattern: str) -> Check:
    compiled = re.compile(pattern)
    return lambda value: type(value) is str and compiled.fullmatch(value) is not None


def _words(*words: str) -> Check:
    return lambda value: type(value) is str and value in words


def _array(*checks: Check) -> Check:
    return lambda value: (
        type(value) is list
        and len(value) == len(checks)
        and all(check(part) for check, part in zip(checks, value, strict=True))
    )


def _list(check: Check, most: int) -> Check:
    return lambda value: (
        type(value) is list and len(value) <= most and all(check(part) for part in value)
    )


def _ascending(check: Check, most: int) -> Check:
    is_list = _list(check, most)
    return lambda value: is_list(value) and value == sorted(set(value))


def _map(key: Check, value: Check, most: int) -> Check:
    return lambda found: (
        type(found) is dict
        and len(found) <= most
        and all(key(name) and value(part) for name, part in found.items())
    )


_UINT, _DIGEST, _ID, _LABEL = _number(), _bytes(32, 32), _bytes(16, 16), _text(r"[ -~]{1,64}")
_LINE = _text(r"[a-z0-9][a-z0-9._-]{0,63}")
_OUTCOMES = ("answered", "error", "refused", "cancelled", "disconnected", "lost")
_REASONS = ("stop", "length", "tool_calls", "content_filter", "error", "cancelled", "none")
_ENTRY: Fields = {ISSUER: _LABEL, LOG_ID: _DIGEST}
_REQUEST: Fields = _ENTRY | {
    SEQUENCE: _UINT,
    STARTED: _UINT,
    NONCE: _bytes(16, 64),
    PROFILE: _words("windhover/generate;v=1"),
    MODEL: _DIGEST,
    PRINCIPAL: _ID,
    PARAMETERS: _map(_text(r"[a-z0-9_]{1,40}"), _number(-MAX_NUMBER), 32),
    SEED: _number(0, (1 << 64) - 1),
    SEED_SOURCE: _words("request", "nonce", "server"),
}
STATEMENT: Fields = _REQUEST | {
    ADMISSION: _UINT,
    ENDED: _UINT,
    OUTCOME: _words(*_OUTCOMES),
    LINE: _LINE,
    RELEASE: _number(1),
    PAYLOAD_DIGEST: _DIGEST,
    LOAD_VERDICT: _words("signed", "unsigned"),
    MODE: _words("production", "dev"),
    SOFTWARE: _DIGEST,
    NUMERICS: _words("wh1"),
    KERNEL_PATH: _LABEL,
    RESIDENCY: _words("full", "stream", "verified-stream"),
    WRITE_XOR: _words("locked", "open"),
    TOKENIZER: _DIGEST,
    TEMPLATE: _DIGEST,
    COMMITMENTS: _map(_words(*NAMES), _DIGEST, len(NAMES)),
    COUNTS: _array(_UINT, _UINT),
    FINISH: _words(*_REASONS),
    TRACE: _array(_UINT, _UINT, _UINT),
    TRUST: _DIGEST,
    REVOCATIONS: _UINT,
    HEAD: _array(_UINT, _DIGEST),
    COVERAGE: _number(0, 31),
}
ADMITTED: Fields = _REQUEST | {REQUEST_ID: _ID, REQUEST_COMMITMENT: _DIGEST}
COSIGNATURE: Fields = {LOG_ID: _DIGEST, SIZE: _number(1), ROOT: _DIGEST, TIME: _UINT}
CHECKPOINT: Fields = _ENTRY | COSIGNATURE | {PREVIOUS: _DIGEST}
RELEASED: Fields = {
    MODEL: _DIGEST,
    LINE: _LINE,
    RELEASE: _number(1),
    NOT_BEFORE: _UINT,
    EXPIRES: _UINT,
    LEAST_RUNTIME: _array(*[_number(0, 65_535)] * 3),
    SUPERSEDES: _ascending(_number(1), 64),
}
REVOKED: Fields = {
    LIST_SEQUENCE: _number(1),
    ISSUED: _UINT,
    KEY_IDS: _ascending(_DIGEST, 900),
    MODEL_DIGESTS: _ascending(_DIGEST, 900),
}
_STRING = _bytes(0, MAX_BUNDLE_BYTES)
BUNDLE: dict[str, Check] = {
    "version": _number(1, 1),
    "statement": _STRING,
    "checkpoint": _STRING,
    "inclusion": _list(_DIGEST, 64),
    "admission": _STRING,
    "admission_inclusion": _list(_DIGEST, 64),
    "consistency": _list(_DIGEST, 128),
    "cosignatures": _list(_STRING, 16),
    "releases": _list(_STRING, 16),
    "revocations": _STRING,
    "salts": _map(_words(*NAMES), _DIGEST, len(NAMES)),
    "request": _bytes(0, MAX_REQUEST_BYTES),
    "prompt_ids": _STRING,
    "transcript": _STRING,
    "output_ids": _STRING,
    "trace_root": lambda value: value == b"" or _DIGEST(value),
}
_OF_A_RELEASE = (LINE, RELEASE, PAYLOAD_DIGEST)


def read_bundle(data: bytes) -> Bundle:
    """Read a bundle (SPEC.md section 5; MalformedError)."""
    value = cbor.decode(data, max_bytes=MAX_BUNDLE_BYTES, max_items=MAX_BUNDLE_ITEMS)
    if not isinstance(value, dict) or not {"version", "statement"} <= value.keys():
        raise MalformedError("bundle")
    if not all(name in BUNDLE and BUNDLE[str(name)](part) for name, part in value.items()):
        raise MalformedError("bundle")
    return {"salts": {}} | {str(name): part for name, part in value.items()}


def _read(payload: bytes, fields: Fields, *optional: int) -> Claims:
    value = cbor.decode(payload)
    if not isinstance(value, dict) or not value.keys() <= fields.keys():
        raise MalformedError("object")
    for key, check in fields.items():
        if not check(value[key]) if key in value else key not in optional:
            raise MalformedError("claim")
    return {int(key): part for key, part in value.items()}


def read_statement(payload: bytes) -> Claims:
    """Read the payload of a statement (MalformedError)."""
    claims = _read(payload, STATEMENT, NONCE, TEMPLATE, *_OF_A_RELEASE)
    if not (
        claims[ADMISSION] < claims[SEQUENCE]
        and claims[STARTED] <= claims[ENDED]
        and sum(key in claims for key in _OF_A_RELEASE) in {0, 3}
        and len(claims[COMMITMENTS]) == len(NAMES)
        and claims[TRACE].count(0) in {0, 3}
        and claims[HEAD][0] <= claims[SEQUENCE]
    ):
        raise MalformedError("statement")
    return claims


def read_admission(payload: bytes) -> Claims:
    """Read the payload of an admission (MalformedError)."""
    return _read(payload, ADMITTED, NONCE)


def read_checkpoint(payload: bytes) -> Claims:
    """Read the payload of a checkpoint (MalformedError)."""
    return _read(payload, CHECKPOINT)


def read_cosignature(payload: bytes) -> Claims:
    """Read the payload of a cosignature (MalformedError)."""
    return _read(payload, COSIGNATURE)


def read_revocations(payload: bytes) -> Claims:
    """Read the payload of a list of revocations (MalformedError)."""
    return _read(payload, REVOKED)


def read_release(payload: bytes) -> Claims:
    """Read the payload of a release (engine/vqf/FORMAT.md section 7; MalformedError)."""
    if len(payload) > 1024:
        raise MalformedError("max-bytes", 1024)
    claims = _read(payload, RELEASED, EXPIRES)
    if EXPIRES in claims and claims[EXPIRES] <= claims[NOT_BEFORE]:
        raise MalformedError("release-expiry")
    if claims[SUPERSEDES] and claims[SUPERSEDES][-1] >= claims[RELEASE]:
        raise MalformedError("release-superseded")
    return claims
