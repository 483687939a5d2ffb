"""Steps 18 to 21, rung A2: request, answer, ids and trace are those committed to."""

from __future__ import annotations

from verifier import objects, transcript
from verifier.case import FAILED, OPEN, Case, StepError
from verifier.errors import MalformedError
from verifier.objects import NAMES
from verifier.sm3 import labelled

PATHS = (
    *("/v1/chat/completions", "/v1/completions", "/v1/embeddings"),
    *("/v1/messages", "/v1/responses"),
)


def opens(case: Case, name: str, content: bytes) -> bool:
    """Return whether the content with the bundle's salt is what was committed to."""
    salt = case.bundle["salts"][name]
    length = len(content).to_bytes(8, "little")
    digest = labelled(
        "windhover/commitment;v=1", name.encode("ascii"), b"\0", salt, length, content
    )
    return bool(digest == case.claims[objects.COMMITMENTS][name])


def step_18(case: Case) -> None:
    """What is there opens its commitment."""
    bundle, expected = case.bundle, case.expected
    coverage = case.claims[objects.COVERAGE]
    missing = []
    for bit, name in zip((1, 2, 4, 8, 16), NAMES, strict=True):
        content = bundle.get("trace_root" if name == "trace" else name)
        if content is None or not coverage & bit:
            stand_in = {"request": expected.request is not None}
            stand_in["transcript"] = expected.response is not None and not expected.prefix
            if not (coverage & bit and stand_in.get(name) and name in bundle["salts"]):
                missing.append(f"no-{name}")
        elif name not in bundle["salts"]:
            missing.append(f"no-salt-{name}")
        elif opens(case, name, content):
            case.opened[name] = content
        else:
            raise StepError(FAILED, f"opens-{name}".replace("_", "-"))
    if missing:
        raise StepError(OPEN, missing[0].replace("_", "-"))


def step_19(case: Case) -> None:
    """The numbers of ids and of positions fit."""
    num_prompt, num_output = case.claims[objects.COUNTS]
    positions = case.claims[objects.TRACE][0]
    for name, count in (("prompt_ids", num_prompt), ("output_ids", num_output)):
        if name in case.opened and len(case.opened[name]) != 4 * count:
            raise StepError(FAILED, "counts")
    if "trace" in case.opened and len(case.opened["trace"]) != (32 if positions else 0):
        raise StepError(FAILED, "counts")
    if positions and (not num_output or positions != num_prompt + num_output - 1):
        raise StepError(FAILED, "counts")


def step_20(case: Case) -> None:
    """The answer is a transcript and ended as the statement says."""
    content = case.opened.get("transcript")
    if content is None:
        content = _expected_transcript(case)
        if content is None or not opens(case, "transcript", content):
            return
    try:
        entries = transcript.decode(content)
    except MalformedError:
        raise StepError(FAILED, "transcript-format") from None
    stated = case.claims[objects.FINISH]
    reasons = transcript.finish_reasons(entries)
    if stated != "none" and any(reason != stated.encode("ascii") for reason in reasons):
        raise StepError(FAILED, "finish-reason")


def step_21(case: Case) -> None:
    """The seed follows from the nonce if it should; request and answer are those expected."""
    claims, expected, salts = case.claims, case.expected, case.bundle["salts"]
    if claims[objects.SEED_SOURCE] == "nonce":
        nonce = claims.get(objects.NONCE)
        digest = labelled("windhover/seed;v=1", nonce) if isinstance(nonce, bytes) else b""
        seed = int.from_bytes(digest[:8], "little")
        if not digest or claims[objects.SEED] != seed:
            raise StepError(FAILED, "seed")
    missing = []
    if expected.request is not None:
        if "request" not in salts:
            missing.append("no-salt-request")
        elif not any(opens(case, "request", form) for form in _request_forms(case)):
            raise StepError(FAILED, "expected-request")
    if expected.response is not None:
        missing += _check_response(case)
    if missing:
        raise StepError(OPEN, missing[0])


def _request_forms(case: Case) -> list[bytes]:
    """Return what the expected request may have been committed to as."""
    request = case.expected.request or b""
    if request.startswith(b"/"):
        return [request]
    if "request" in case.opened:
        paths = [case.opened["request"].partition(b"\0")[0]]
    else:
        paths = [path.encode("ascii") for path in PATHS]
    return [path + b"\0" + request for path in paths]


def _expected_transcript(case: Case) -> bytes | None:
    """Return the expected response as a transcript, if its commitment can be opened with it."""
    response = case.expected.response
    if response is None or case.expected.prefix or "transcript" not in case.bundle["salts"]:
        return None
    try:
        return transcript.encode(transcript.reduce(response))
    except MalformedError:
        return None


def _check_response(case: Case) -> list[str]:
    """Return why the expected response cannot be compared (StepError if it differs)."""
    expected = case.expected
    try:
        entries = transcript.reduce(expected.response or b"", partial=expected.prefix)
        if expected.prefix:
            if "transcript" not in case.opened:
                return ["no-transcript"]
            equal = transcript.is_prefix(entries, transcript.decode(case.opened["transcript"]))
        else:
            if "transcript" not in case.bundle["salts"]:
                return ["no-salt-transcript"]
            equal = opens(case, "transcript", transcript.encode(entries))
    except MalformedError:
        equal = False
    if not equal:
        raise StepError(FAILED, "expected-response")
    return []
