"""What an audit says, as text for people and as JSON for programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from appliance.audit.findings import (
    A4,
    A5,
    EXIT_CODES,
    FAIL,
    INCOMPLETE,
    TEXT,
    Findings,
    Result,
)
from verifier.report import NEVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from verifier.report import Report as VerifierReport

NO_TRUST: Final = "no-trust"
FRACTIONS: Final = (0.01, 0.05, 0.1, 0.25, 0.5)
_TITLES: Final = {TEXT: "Request and text", A4: "Sampled units", A5: "Replay"}
_MARKS: Final = {
    Result.PASSED: "ok",
    Result.FAILED: "FAILED",
    Result.OPEN: "open",
    Result.NOT_MADE: "-",
}
_NOT_CHECKED: Final = {
    TEXT: "that the ids follow from the model: --full computes them again, --opening samples",
    A4: "the units that were not drawn; text and prompt ids, which --text checks",
}


@dataclass(frozen=True)
class AuditReport:
    """The outcome of one audit.

    Attributes:
        rung: what was asked for: `TEXT`, `A4` or `A5`.
        findings: its steps.
        verified: what the verifier found, None without a trust file.
        num_units: how many units the challenge names, of an opening.
        bytes_read: bytes of weights that were read.
        file_bytes: length of the weight file.
        seconds: for reading and computing again.
    """

    rung: str
    findings: Findings
    verified: VerifierReport | None
    num_units: int = 0
    bytes_read: int = 0
    file_bytes: int = 0
    seconds: float = 0.0

    @property
    def verdict(self) -> tuple[str, str]:
        """Verdict and reason: the worse of verifier and audit, the verifier's first."""
        mine = self.findings.verdict
        before = (INCOMPLETE, NO_TRUST)
        if self.verified is not None:
            before = (self.verified.verdict, self.verified.reason)
        for verdict in (FAIL, INCOMPLETE):
            for found in (before, mine):
                if found[0] == verdict:
                    return found
        return mine

    @property
    def chances(self) -> list[tuple[float, float]]:
        """For fractions of wrong units, the chance that the sample has one."""
        if self.rung != A4:
            return []
        return [(f, 1 - (1 - f) ** self.num_units) for f in FRACTIONS]

    def as_json(self) -> dict[str, object]:
        """Return the report for programs."""
        verdict, reason = self.verdict
        return {
            "verdict": verdict,
            "reason": reason,
            "exit_code": EXIT_CODES[verdict],
            "rung": self.rung,
            "steps": [step.as_json() for step in self.findings],
            "verifier": None if self.verified is None else self.verified.as_dict(),
            "units": self.num_units,
            "detection": [{"fraction": f, "probability": p} for f, p in self.chances],
            "weights_bytes_read": self.bytes_read,
            "weights_file_bytes": self.file_bytes,
            "seconds": round(self.seconds, 3),
            "not_checked": self._not_checked(),
            "never_shown": list(NEVER),
        }

    def as_text(self) -> str:
        """Return the report for people, the verdict first."""
        verdict, reason = self.verdict
        lines = [f"{verdict}: {reason}"]
        lines += self._verifier_lines()
        for rung, title in _TITLES.items():
            steps = [step for step in self.findings if step.rung == rung]
            lines += ["", title] if steps else []
            for step in steps:
                at = "" if step.position is None else f" at position {step.position}"
                why = "" if step.reason is None else f"  [{step.reason}{at}]"
                lines.append(f"  {_MARKS[step.result]:6} {step.words}{why}")
        if self.bytes_read:
            share = f"{self.bytes_read} of {self.file_bytes} bytes of weights"
            lines += ["", f"Read {share}; computed in {self.seconds:.1f} s"]
        if self.chances:
            lines += ["", f"{self.num_units} units were drawn, about half of them token choices."]
            lines += ["Where a draw hits a wrong unit with"]
            lines += [f"  chance {f:>4.0%}, one is found with {p:.2%}" for f, p in self.chances]
        lines += _list("Not checked here", self._not_checked())
        lines += _list("This can never show", NEVER)
        return "\n".join(lines)

    def _verifier_lines(self) -> list[str]:
        if self.verified is None:
            return ["", "Statement, log and release", f"  -      not verified  [{NO_TRUST}]"]
        lines = ["", f"Statement, log and release: {self.verified.verdict}"]
        for step in self.verified.steps:
            if step.result != Result.PASSED.value:
                why = f"  [{step.reason}]" if step.reason else ""
                lines.append(f"  {step.result:8} step {step.number} of {step.rung}{why}")
        return lines

    def _not_checked(self) -> list[str]:
        missing = [_NOT_CHECKED[self.rung]] if self.rung in _NOT_CHECKED else []
        if self.verified is None:
            missing.append("who signed the statement, and that it is in a log: name a --trust file")
        return missing


def _list(title: str, texts: Sequence[str]) -> list[str]:
    return ["", title, *(f"  {text}" for text in texts)] if texts else []
