"""What has to hold when the clients are gone: no slot lost, nothing left open, all of it found."""

from __future__ import annotations

import base64
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

from appliance.bench.pressure.caller import Caller
from appliance.bench.pressure.exchange import Manner
from appliance.bench.pressure.results import Results
from appliance.log.anchor import FileAnchor
from appliance.log.check import LogCheck
from appliance.log.errors import LogDamageError
from appliance.log.files import LogFiles
from appliance.log.layout import ADMISSION, CLOSING
from appliance.log.start import check_anchor
from crypto.cose import decode_sign1
from crypto.errors import FormatError
from crypto.evidence import MAX_OBJECT_BYTES
from crypto.sm2 import PublicKey
from crypto.statement import decode_statement

_IDLE_S: Final = 120
_GAUGES: Final = ("places", "mismatches")


def check_slots(results: Results, operator: Caller) -> None:
    """Wait until nothing is left to do, and see that every slot was given back."""
    limit = time.monotonic() + _IDLE_S
    begun = time.monotonic()
    while (left := _left(operator)) and time.monotonic() < limit:
        time.sleep(0.2)
    results.figures["idle_after_s"] = round(time.monotonic() - begun, 1)
    words = ", ".join(f"{name} {count}" for name, count in left.items())
    results.check("no slot is lost", not left, words or "running, queued, open and places are 0")


def _left(operator: Caller) -> dict[str, int]:
    """Return what is not 0 though nobody asks."""
    status = operator.ask("/v1/status").value
    counts = {name: status["requests"][name] for name in ("running", "queued", "open")}
    counts["open admissions"] = status["log"]["open_admissions"]
    lines = operator.ask("/metrics").body.decode("ascii", errors="replace").splitlines()
    for line in lines:
        name, _, value = line.partition(" ")
        if name.removeprefix("windhover_") in _GAUGES:
            counts[name.removeprefix("windhover_")] = int(float(value))
    return {name: count for name, count in counts.items() if count}


def check_state(results: Results, operator: Caller) -> None:
    """See that the service is as it was, and met no error that nobody expected."""
    status: dict[str, Any] = operator.ask("/v1/status").value
    results.service |= {
        "model": status["model"],
        "start": status["start"],
        "log": status["log"],
        "requests": status["requests"],
    }
    results.figures["generated_tokens"] = status["requests"]["generated_tokens"]
    results.figures["cached_tokens"] = status["requests"]["cached_tokens"]
    results.figures["prompt_tokens"] = status["requests"]["prompt_tokens"]
    wrong = [f"{error}" for error in status["errors"]]
    if not status["ready"]:
        wrong.append(f"it is {status['state']}: {status['reasons']}")
    if status["access_log_lines_lost"]:
        wrong.append(f"{status['access_log_lines_lost']} lines of the access log are lost")
    results.check("the service met no error", not wrong, "; ".join(wrong[:3]) or "none")


def check_attestations(
    results: Results, url: str, keys: tuple[str, ...], known: dict[str, tuple[int, bool]]
) -> None:
    """Fetch the attestation of every answer of which a client was told."""
    wrong: list[str] = []
    outcomes: Counter[str] = Counter()
    for name, (key, is_whole) in known.items():
        outcome = _outcome(Caller(url, keys[key]), name)
        outcomes[outcome] += 1
        allowed = ("answered",) if is_whole else ("answered", "disconnected", "cancelled")
        if outcome not in allowed:
            wrong.append(f"{name}: {outcome}")
    results.figures["attestations_announced"] = len(known)
    found = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    said = "; ".join(wrong[:3]) if wrong else f"{len(known)}: {found}"
    results.check("every attestation is found", not wrong, said)


def _outcome(caller: Caller, name: str) -> str:
    """Return what the statement of an attestation says, or why there is none."""
    while True:
        got = caller.send(f"/v1/attestations/{name}", None, Manner(), None)
        if got.status in (429, 503) and got.retry_after_s is not None:
            time.sleep(got.retry_after_s)
            continue
        if got.status != 200:
            return got.failure or f"status {got.status}, {got.code}"
        try:
            signed = decode_sign1(
                base64.b64decode(got.value["statement"]), max_bytes=MAX_OBJECT_BYTES
            )
            return decode_statement(signed.payload).outcome
        except (FormatError, KeyError, TypeError, ValueError) as error:
            return f"no statement: {type(error).__name__}"


def check_log(
    results: Results, folder: Path | None, anchor: Path | None, key: PublicKey | None
) -> None:
    """Read the whole log again, and see that every admission has its statement."""
    if folder is None:
        results.check("the log is whole", None, "its folder was not named")
        return
    try:
        files = LogFiles(folder)
        if anchor is not None:
            check_anchor(files, FileAnchor(anchor).read())
        keys = None if key is None else {key.key_id: key}
        checked = LogCheck(files, keys=keys, all_signatures=keys is not None).run()
    except LogDamageError as error:
        results.check("the log is whole", False, str(error))
        return
    counts: Counter[str] = Counter()
    for index in range(files.head.size):
        entry = files.entry(index)
        counts["admitted"] += entry.kind == ADMISSION
        if entry.kind == CLOSING:
            signed = decode_sign1(entry.body, max_bytes=MAX_OBJECT_BYTES)
            counts[decode_statement(signed.payload).outcome] += 1
    admitted = counts.pop("admitted")
    results.figures |= {"admitted": admitted}
    results.figures |= {f"closed_{outcome}": count for outcome, count in sorted(counts.items())}
    num_open = len(files.last.growth.open_admissions)
    unchecked = 0 if keys is None else checked.signatures_unchecked
    found = f"{checked.entries} entries, {checked.checkpoints} checkpoints, "
    found += f"{checked.signatures} signatures verified"
    results.check("the log is whole", not unchecked, found)
    is_attested = counts.total() == admitted and not num_open and not counts["lost"]
    said = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    found = f"{admitted} admitted, {num_open} open; {said}"
    results.check("every admitted request is attested", is_attested, found)
