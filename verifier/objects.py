"""The payloads that SPEC.md section 2 and crypto/README.md define, read by tables."""

from __future__ import annotations

from collections.abc import Callable

from verifier import cbor
from verifier.errors import DIGITS, LOWER, PRINTABLE, Any, require, spelt

Check = Callable[[Any], bool]
Fields = dict[int, Check]
Bundle = dict[str, Any]
Claims = dict[int, Any]  # what has passed its table has the types that the table says

MAX_BUNDLE_BYTES = 32 << 20
MAX_BUNDLE_ITEMS = 1024
MAX_REQUEST_BYTES = 16 << 20
MAX_OBJECT_BYTES = 65_536
MAX_RELEASE_BYTES = 4096
MAX_NUMBER = (1 << 53) - 1
MAX_SOFTWARE_BYTES = 2048  # its payload
LINE_NAME = (DIGITS + LOWER + "._-", 64, DIGITS + LOWER)
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
PRODUCT, VERSION, FILES, FILE_BYTES, FILE_LIST, KERNELS, PROFILES = range(-70301, -70307 - 1, -1)


def _number(low: int = 0, high: int = MAX_NUMBER) -> Check:
    return lambda value: type(value) is int and low <= value <= high


def _bytes(low: int, high: int) -> Check:
    return lambda value: type(value) is bytes and low <= len(value) <= high


def _text(signs: str, most: int = 64, first: str = "") -> Check:
    return lambda value: type(value) is str and spelt(value, signs, most, first)


def _words(*words: str) -> Check:
    return lambda value: type(value) is str and value in words


def _array(*checks: Check) -> Check:
    return lambda value: (
        type(value) is list
        and len(value) == len(checks)
        and all(check(part) for check, part in zip(checks, value, strict=True))
    )


def _list(check: Check, most: int) -> Check:
    return lambda value: type(value) is list and len(value) <= most and all(map(check, value))


def _ascending(check: Check, most: int) -> Check:
    is_list = _list(check, most)
    return lambda value: is_list(value) and value == sorted(set(value))


def _map(key: Check, value: Check, most: int) -> Check:
    return lambda found: (
        type(found) is dict
        and len(found) <= most
        and all(map(key, found))
        and all(map(value, found.values()))
    )


_UINT, _DIGEST, _ID, _LABEL = _number(), _bytes(32, 32), _bytes(16, 16), _text(PRINTABLE)
_STRING, _BY_NAME = _bytes(0, MAX_BUNDLE_BYTES), _map(_words(*NAMES), _DIGEST, len(NAMES))
# fmt: off  (tables are read by rows)
_ENTRY: Fields = {ISSUER: _LABEL, LOG_ID: _DIGEST}
_REQUEST: Fields = _ENTRY | {
    SEQUENCE: _UINT,
    STARTED: _UINT,
    NONCE: _bytes(16, 64),
    PROFILE: _words("windhover/generate;v=1"),
    MODEL: _DIGEST,
    PRINCIPAL: _ID,
    PARAMETERS: _map(_text(DIGITS + LOWER + "_", 40), _number(-MAX_NUMBER), 32),
    SEED: _number(0, (1 << 64) - 1),
    SEED_SOURCE: _words("request", "nonce", "server"),
}
STATEMENT: Fields = _REQUEST | {
    ADMISSION: _UINT,
    ENDED: _UINT,
    OUTCOME: _words("answered", "error", "refused", "cancelled", "disconnected", "lost"),
    LINE: _text(*LINE_NAME),
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
    COMMITMENTS: _BY_NAME,
    COUNTS: _array(_UINT, _UINT),
    FINISH: _words("stop", "length", "tool_calls", "content_filter", "error", "cancelled", "none"),
    TRACE: _array(_UINT, _UINT, _UINT),
    TRUST: _DIGEST,
    REVOCATIONS: _UINT,
    HEAD: _array(_UINT, _DIGEST),
    COVERAGE: _number(0, 31),
}
COSIGNATURE: Fields = {LOG_ID: _DIGEST, SIZE: _number(1), ROOT: _DIGEST, TIME: _UINT}
RELEASED: Fields = {
    MODEL: _DIGEST,
    LINE: _text(*LINE_NAME),
    RELEASE: _number(1),
    NOT_BEFORE: _UINT,
    EXPIRES: _UINT,
    LEAST_RUNTIME: _array(*[_number(0, 65_535)] * 3),
    SUPERSEDES: _ascending(_number(1), 64),
}
_NAMES = _ascending(_text(DIGITS + LOWER + "-", 64, DIGITS + LOWER), 8)
RELEASED_SOFTWARE: Fields = {
    PRODUCT: _text(*LINE_NAME),
    VERSION: _array(*[_number(0, 65_535)] * 3),
    SOFTWARE: _DIGEST,
    FILES: _number(1, 100_000),
    FILE_BYTES: _UINT,
    FILE_LIST: _DIGEST,
    KERNELS: _NAMES,
    PROFILES: lambda value: _NAMES(value) and value != [],
    ISSUED: _UINT,
}
REVOKED: Fields = {
    LIST_SEQUENCE: _number(1),
    ISSUED: _UINT,
    KEY_IDS: _ascending(_DIGEST, 900),
    MODEL_DIGESTS: _ascending(_DIGEST, 900),
}
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
    "salts": _BY_NAME,
    "request": _bytes(0, MAX_REQUEST_BYTES),
    "prompt_ids": _STRING,
    "transcript": _STRING,
    "output_ids": _STRING,
    "trace_root": lambda value: value == b"" or _DIGEST(value),
}
# fmt: on
_OF_A_RELEASE = (LINE, RELEASE, PAYLOAD_DIGEST)


def read_bundle(data: bytes) -> Bundle:
    """Read a bundle (SPEC.md section 5; MalformedError)."""
    value: Bundle = cbor.decode(data, max_bytes=MAX_BUNDLE_BYTES, max_items=MAX_BUNDLE_ITEMS)
    require(
        type(value) is dict and {"version", "statement"} <= value.keys() <= BUNDLE.keys(), "map"
    )
    require(all(BUNDLE[name](part) for name, part in value.items()), "part")
    return {"salts": {}} | value


def _reader(fields: Fields, *optional: int) -> Callable[[bytes], Claims]:
    def read(payload: bytes) -> Claims:
        claims: Claims = cbor.decode(payload)
        require(type(claims) is dict, "map")
        require(fields.keys() - set(optional) <= claims.keys() <= fields.keys(), "claims")
        require(all(fields[key](part) for key, part in claims.items()), "claim")
        return claims

    return read


# they read the payloads of their kinds (MalformedError)
read_admission = _reader(_REQUEST | {REQUEST_ID: _ID, REQUEST_COMMITMENT: _DIGEST}, NONCE)
read_checkpoint = _reader(_ENTRY | COSIGNATURE | {PREVIOUS: _DIGEST})
read_cosignature = _reader(COSIGNATURE)
read_revocations = _reader(REVOKED)
_read_statement = _reader(STATEMENT, NONCE, TEMPLATE, *_OF_A_RELEASE)
_read_release = _reader(RELEASED, EXPIRES)
_read_software = _reader(RELEASED_SOFTWARE)


def read_statement(payload: bytes) -> Claims:
    """Read the payload of a statement (MalformedError)."""
    claims = _read_statement(payload)
    require(
        claims[ADMISSION] < claims[SEQUENCE]
        and claims[STARTED] <= claims[ENDED]
        and sum(key in claims for key in _OF_A_RELEASE) in {0, 3}
        and len(claims[COMMITMENTS]) == len(NAMES)
        and claims[TRACE].count(0) in {0, 3}
        and claims[HEAD][0] <= claims[SEQUENCE],
        "statement",
    )
    return claims


def read_release(payload: bytes) -> Claims:
    """Read the payload of a release (engine/vqf/FORMAT.md section 7; MalformedError)."""
    require(len(payload) <= 1024, "max-bytes", 1024)
    claims = _read_release(payload)
    require(claims[NOT_BEFORE] < claims.get(EXPIRES, 1 << 64), "release-expiry")
    require(max(claims[SUPERSEDES], default=0) < claims[RELEASE], "release-superseded")
    return claims


def read_software(payload: bytes) -> Claims:
    """Read the payload of a software manifest (crypto/README.md, section Software)."""
    require(len(payload) <= MAX_SOFTWARE_BYTES, "max-bytes", MAX_SOFTWARE_BYTES)
    return _read_software(payload)
