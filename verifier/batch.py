"""Several bundles of one log, verified together (SPEC.md section 6)."""

from __future__ import annotations

from collections.abc import Iterable

from verifier.expectations import Expectations
from verifier.objects import HEAD, LOG_ID, ROOT, SEQUENCE, SIZE
from verifier.report import EXIT_CODES, FAIL, INCOMPLETE, PASS, Report
from verifier.sm3 import sm3
from verifier.trust import Trust
from verifier.verify import verify

CONTRADICTIONS = ("batch-log", "batch-sequence", "batch-root")
WORST_FIRST = (FAIL, INCOMPLETE, PASS)


class Batch:
    """The outcomes of bundles by name, and the verdict on all of them together."""

    def __init__(self) -> None:
        self.outcomes: dict[str, tuple[str, str]] = {}
        self._log: bytes | None = None
        self._statements: dict[int, bytes] = {}
        self._roots: dict[int, bytes] = {}
        self._found: set[str] = set()

    def add(self, name: str, report: Report) -> None:
        """Take in a report and compare what its signed statement says of the log."""
        self.outcomes[name] = report.verdict, report.reason
        claims = report.statement
        if claims is None or not report.is_signed:
            return
        self._log = self._log or claims[LOG_ID]
        heads = [tuple(claims[HEAD])]
        if report.head is not None:
            heads.append((report.head[SIZE], report.head[ROOT]))
        digest = sm3(report.object_bytes)
        differs = (
            claims[LOG_ID] != self._log,
            self._statements.setdefault(claims[SEQUENCE], digest) != digest,
            any(self._roots.setdefault(size, root) != root for size, root in heads),
        )
        self._found |= {name for name, found in zip(CONTRADICTIONS, differs, strict=True) if found}

    @property
    def outcome(self) -> tuple[str, str]:
        """Verdict and reason of all; at least one must have been added."""
        for name in CONTRADICTIONS:
            if name in self._found:
                return FAIL, name
        return min(self.outcomes.values(), key=lambda found: WORST_FIRST.index(found[0]))

    @property
    def exit_code(self) -> int:
        """That of the verdict."""
        return EXIT_CODES[self.outcome[0]]

    def as_dict(self) -> dict[str, object]:
        """Return the summary in the form of its JSON; names are escaped by whoever gives them."""
        verdict, reason = self.outcome
        bundles = {name: {"verdict": v, "reason": r} for name, (v, r) in self.outcomes.items()}
        return {"verdict": verdict, "reason": reason, "bundles": bundles}

    def as_text(self) -> str:
        """Return the summary for people: the verdict first, then what did not pass."""
        verdicts = [verdict for verdict, _ in self.outcomes.values()]
        counts = ", ".join(f"{verdicts.count(name)} {name}" for name in WORST_FIRST)
        lines = [": ".join(self.outcome), "", f"{len(verdicts)} bundles: {counts}"]
        lines += [f"  {name}: {v}: {r}" for name, (v, r) in self.outcomes.items() if v != PASS]
        return "\n".join(lines)


def verify_all(bundles: Iterable[tuple[str, bytes]], trust: Trust, expected: Expectations) -> Batch:
    """Verify named bundles one after the other under one trust file."""
    cache: dict[bytes, bool] = {}
    batch = Batch()
    for name, data in bundles:
        batch.add(name, verify(data, trust, expected, cache))
    return batch
