"""What a verification found, as text for people and as JSON for programs."""

from __future__ import annotations

import time

from verifier import objects, sm3
from verifier.objects import Claims
from verifier.software import OK, Software

PASS, FAIL, INCOMPLETE = "PASS", "FAIL", "INCOMPLETE"
EXIT_CODES = {PASS: 0, FAIL: 1, INCOMPLETE: 3}
EXIT_USAGE = 2

RUNGS = {
    "A0": "Statement and signature",
    "A1": "Log",
    "A2": "Request, answer, ids and trace",
    "A3": "Model and release",
}
NOT_CHECKED = (
    "that the answer follows from the request under this model (windhover audit, with the weights)",
)
NEVER = (
    "that the client received the answer",
    "that there was no other answer to the request outside the log",
    "that the model is good",
    "that no key was stolen",
    "that the software is the one that is named, unless what started the machine is verified, too",
    "that log and anchor were not rolled back together, unless somebody else holds a later head",
)
# fmt: off
_SAYS = {
    "issuer": objects.ISSUER, "outcome": objects.OUTCOME, "finish reason": objects.FINISH,
    "started": objects.STARTED, "ended": objects.ENDED, "model digest": objects.MODEL,
    "line": objects.LINE, "release": objects.RELEASE, "software digest": objects.SOFTWARE,
    "numerics": objects.NUMERICS, "kernel path": objects.KERNEL_PATH,
    "residency": objects.RESIDENCY, "write-xor-execute": objects.WRITE_XOR, "mode": objects.MODE,
    "load verdict": objects.LOAD_VERDICT, "principal": objects.PRINCIPAL,
    "sequence in the log": objects.SEQUENCE, "its trust file": objects.TRUST,
    "its revocations": objects.REVOCATIONS, "seed from": objects.SEED_SOURCE,
}
# fmt: on
_TIMES = (objects.STARTED, objects.ENDED)
_MARKS = {"passed": "ok", "failed": "FAILED", "open": "open", "not made": "-"}


class Step:
    """The result of one step: passed, failed, open or not made; a reason for the middle two."""

    __slots__ = ("number", "reason", "result", "rung", "words")

    def __init__(self, number: int, rung: str, words: str, result: str, reason: str | None) -> None:
        self.number, self.rung, self.words = number, rung, words
        self.result, self.reason = result, reason


class Witness:
    """A witness of the trust file and when it signed the head (ms since 1970)."""

    __slots__ = ("at", "name")

    def __init__(self, name: str, at: int) -> None:
        self.name, self.at = name, at


class Report:
    """Verdict, its reason, every step, and what the statement says."""

    def __init__(self, verdict: str, reason: str, steps: list[Step]) -> None:
        self.verdict, self.reason, self.steps = verdict, reason, steps
        self.statement: Claims | None = None
        self.signer = b""
        self.object_bytes = b""
        self.is_signed = False
        self.head: Claims | None = None
        self.witnesses: list[Witness] = []
        self.opened: list[str] = []
        self.software: list[Software] = []

    @property
    def exit_code(self) -> int:
        """0 for PASS, 1 for FAIL, 3 for INCOMPLETE."""
        return EXIT_CODES[self.verdict]

    def says(self) -> dict[str, str]:
        """Return what the appliance says, in words: shown, never believed."""
        found = {}
        said = self.statement or {}
        for name, key in _SAYS.items():
            if key in said:
                value = said[key].hex() if isinstance(said[key], bytes) else escaped(str(said[key]))
                found[name] = instant(said[key]) if key in _TIMES else value
        if releases := [_release(one) for one in self.software if one.result == OK]:
            found["software release"] = "; ".join(releases)
        if found.get("seed from") == "server":
            found["seed from"] += " (steerable: it could have drawn again)"
        return found

    def as_dict(self) -> dict[str, object]:
        """Return the report in the form of its JSON."""
        return {
            "verdict": self.verdict,
            "reason": self.reason,
            "steps": [
                {"step": s.number, "rung": s.rung, "result": s.result, "reason": s.reason}
                for s in self.steps
            ],
            "signer": self.signer.hex(),
            "opened": self.opened,
            "appliance_says": self.says(),
            "software": [one.as_dict() for one in self.software],
            "witnesses": [{"name": w.name, "time": instant(w.at)} for w in self.witnesses],
            "not_checked": list(NOT_CHECKED),
            "never_shown": list(NEVER),
            "sm3": sm3.SOURCE,
        }

    def as_json(self) -> str:
        """Return the report as JSON in ASCII."""
        return as_json(self.as_dict())

    def as_text(self) -> str:
        """Return the report for people, the verdict first."""
        lines = [f"{self.verdict}: {self.reason}"]
        for rung, title in RUNGS.items():
            lines += ["", f"{rung} {title}"]
            for step in self.steps:
                if step.rung == rung:
                    reason = f"  [{step.reason}]" if step.reason else ""
                    mark = _MARKS[step.result]
                    lines.append(f"  {step.number:2} {mark:6} {step.words}{reason}")
        lines += ["", "Signed by key", f"  {self.signer.hex() or 'unknown'}"]
        for witness in self.witnesses:
            lines.append(f"  head also signed by witness {witness.name}, {instant(witness.at)}")
        lines += ["", "The appliance says (not verified)"]
        lines += [f"  {name}: {value}" for name, value in self.says().items()]
        if self.software:
            lines += ["", "Software manifests (no influence on the verdict)"]
        for number, one in enumerate(self.software, 1):
            said = f": {_release(one)}" if one.release else ""
            lines.append(f"  {number:2} {one.result}{said}")
        lines += ["", "Not checked here", *(f"  {text}" for text in NOT_CHECKED)]
        lines += ["", "This can never show", *(f"  {text}" for text in NEVER)]
        lines += ["", f"SM3 computed by {sm3.SOURCE}"]
        return "\n".join(lines)


def _release(software: Software) -> str:
    return f"{software.release}, signed by {software.signer}"


def as_json(value: dict[str, object]) -> str:
    """Return a report or a summary as JSON in ASCII."""
    import json  # noqa: PLC0415  slow to start, and text does not need it

    return json.dumps(value, indent=1)


def escaped(text: str) -> str:
    """Return a text with everything but printable ASCII as escapes."""
    return "".join(
        "\\\\" if sign == "\\" else sign if " " <= sign <= "~" else f"\\u{{{ord(sign):x}}}"
        for sign in text
    )


def instant(ms: int) -> str:
    """Return a time in ms since 1970 as text, UTC."""
    if ms >= 253_402_300_800_000:
        return f"{ms} ms"
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms // 1000)) + f".{ms % 1000:03}Z"
