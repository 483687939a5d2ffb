"""Steps 18 to 21, rung A2: request, answer, ids and trace are those committed to."""

from __future__ import annotations

from verifier import objects, transcript
from verifier.case import OPEN, Case, StepError, fail_if, read_or_fail
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
    # what the auditor expects stands in for what is not there; step 21 compares it
    stand_in = {
        "request": expected.request is not None,
        "transcript": expected.response is not None and not expected.prefix,
    }
    missing = []
    for bit, name in zip((1, 2, 4, 8, 16), NAMES, strict=True):
        content = bundle.get("trace_root" if name == "trace" else name)
        if content is None or not coverage & bit:
            if not (coverage & bit and stand_in.get(name) and name in bundle["salts"]):
                missing.append(f"no-{name}")
        elif name not in bundle["salts"]:
            missing.append(f"no-salt-{name}")
        else:
            fail_if(not opens(case, name, content), f"opens-{name}".replace("_", "-"))
            case.opened[name] = content
    if missing:
        raise StepError(OPEN, missing[0].replace("_", "-"))


def step_19(case: Case) -> None:
    """The numbers of ids and of positions fit."""
    num_prompt, num_output = case.claims[objects.COUNTS]
    positions = case.claims[objects.TRACE][0]
    sizes = {"prompt_ids": 4 * num_prompt, "output_ids": 4 * num_output}
    sizes["trace"] = 32 if positions else 0
    fail_if(
        any(len(case.opened[name]) != sizes[name] for name in sizes.keys() & case.opened), "counts"
    )
    possible = num_prompt + num_output - 1 if num_output else 0
    if num_output == 0 and "inputs" in case.claims[objects.PARAMETERS]:
        possible = num_prompt
    fail_if(positions not in (0, possible), "counts")


def step_20(case: Case) -> None:
    """The answer is a transcript and ended as the statement says."""
    content = case.opened.get("transcript")
    if content is None:
        content = _expected_transcript(case)
        if content is None or not opens(case, "transcript", content):
            return
    entries = read_or_fail("transcript-format", transcript.decode, content)
    stated = case.claims[objects.FINISH]
    differ = set(transcript.finish_reasons(entries)) - {stated.encode("ascii")}
    fail_if(stated != "none" and bool(differ), "finish-reason")


def step_21(case: Case) -> None:
    """The seed follows from the nonce if it should; request and answer are those expected."""
    claims, expected, salts = case.claims, case.expected, case.bundle["salts"]
    if claims[objects.SEED_SOURCE] == "nonce":
        fail_if(objects.NONCE not in claims, "seed")
        seed = labelled("windhover/seed;v=1", claims[objects.NONCE])[:8]
        fail_if(claims[objects.SEED] != int.from_bytes(seed, "little"), "seed")
    missing = []
    if expected.request is not None:
        if "request" in salts:
            forms = _request_forms(case, expected.request)
            fail_if(not any(opens(case, "request", form) for form in forms), "expected-request")
        else:
            missing.append("no-salt-request")
    if expected.response is not None:
        missing += _check_response(case, expected.response)
    if missing:
        raise StepError(OPEN, missing[0])


def _request_forms(case: Case, request: bytes) -> list[bytes]:
    """Return what the expected request may have been committed to as."""
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
    from verifier.responses import reduce  # noqa: PLC0415  most bundles come without a response

    try:
        return transcript.encode(reduce(response))
    except MalformedError:
        return None


def _check_response(case: Case, response: bytes) -> list[str]:
    """Return why the expected response cannot be compared (StepError if it differs)."""
    from verifier.responses import reduce  # noqa: PLC0415  as above

    prefix = case.expected.prefix
    entries = read_or_fail("expected-response", reduce, response, prefix)
    if prefix:
        if "transcript" not in case.opened:
            return ["no-transcript"]
        whole = read_or_fail("expected-response", transcript.decode, case.opened["transcript"])
        equal = transcript.is_prefix(entries, whole)
    else:
        if "transcript" not in case.bundle["salts"]:
            return ["no-salt-transcript"]
        equal = opens(case, "transcript", transcript.encode(entries))
    fail_if(not equal, "expected-response")
    return []
