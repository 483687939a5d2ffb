"""Whether a report is true: what anybody can check, and what takes the secret key.

Every check says "verified", "did not verify" or "could not be checked"; the last two are never
mixed up. Without the key holder and the model the figures themselves are not checked, and the
outcome says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from crypto.errors import CryptoError, UnavailableError
from crypto.sm2 import PublicKey
from he_chain.errors import CheckpointError, HeChainError, ProtocolError, SecurityError
from he_chain.records.claims import CLAIMS, security_line
from he_chain.records.flow import check_levels
from he_chain.records.record import Begin
from he_chain.records.run_folder import Run, read_whole
from he_chain.reports.measure import Decrypts, References, expected, measure
from he_chain.reports.report import (
    MAX_REPORT_BYTES,
    Json,
    build_report,
    decode_report,
    encode_report,
    measurement_as_json,
    measurement_from_json,
)
from he_chain.reports.report_folder import REPORT, SIGNED
from he_chain.reports.signed_report import MAX_SIGNED_BYTES, verify_report

VERIFIED: Final = "verified"
FAILED: Final = "did not verify"
UNCHECKED: Final = "could not be checked"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check."""

    name: str
    outcome: str
    """`VERIFIED`, `FAILED` or `UNCHECKED`."""
    detail: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """All checks of a report."""

    findings: tuple[Finding, ...]
    verdict: str
    """The report's own PASS, FAIL or INCOMPLETE; it counts only if everything verified."""

    @property
    def outcome(self) -> str:
        """The worst of all: one check that failed outweighs any that could not be made."""
        outcomes = {finding.outcome for finding in self.findings}
        return next(word for word in (FAILED, UNCHECKED, VERIFIED) if word in outcomes)


@dataclass(frozen=True, slots=True)
class KeySide:
    """What takes the secret key: the key holder, and the references of its tokens."""

    holder: Decrypts
    references: References


def verify(
    folder: Path,
    run_folder: Path,
    *,
    public_key: PublicKey | None,
    key_side: KeySide | None,
    model_digest: bytes | None = None,
    plan_of: Callable[[Begin], tuple[bytes, bytes]] | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Outcome:
    """Check a report against the run that it is of.

    Args:
        folder: holds report.json and report.cose.
        run_folder: the run.
        public_key: whose signature is wanted; None leaves that unchecked.
        key_side: to decrypt again; None leaves the figures unchecked.
        model_digest: 32 bytes of the model that was meant; None leaves that unchecked.
        plan_of: returns digests of plan and calibration for a begin record, as they should be;
            None leaves them unchecked.
        progress: called with hops done, hops in all, while decrypting.

    Raises:
        CheckpointError: there is no report to check.
    """
    data = read_whole(folder / REPORT, MAX_REPORT_BYTES)
    checks = _Checks()
    report = checks.make("form", "one object in its one form", lambda: decode_report(data))
    run = checks.make("records", "each follows the one before", lambda: Run.open(run_folder))
    if report is None or run is None:
        return Outcome(tuple(checks.findings), "INCOMPLETE")
    if public_key is None:
        checks.skip("signature", "no public key was given")
    else:
        key = public_key
        checks.make(
            "signature",
            f"by {key.key_id.hex()}",
            lambda: verify_report(
                read_whole(folder / SIGNED, MAX_SIGNED_BYTES), data, run.head, key
            ),
        )
    checks.make("report", "what it says of the run is so", lambda: _same(report, run))
    checks.make("ciphertexts", "each is the one that its record names", lambda: _blobs(run))
    checks.make("levels", "every level and scale can be", lambda: _levels(run))
    checks.make("security", run.begin.security, lambda: _security(run))
    checks.make("claims", "those of the protocol, none left out", lambda: _claims(run))
    if model_digest is None:
        checks.skip("model", "no model was given")
    else:
        wanted = model_digest
        checks.make("model", wanted.hex(), lambda: _model(run, wanted))
    if plan_of is None:
        checks.skip("plan", "no calibration was given to plan with")
    else:
        plan = plan_of
        checks.make("plan", run.begin.plan_digest.hex(), lambda: _plan(run, plan))
    if report.get("measured") is None:
        checks.skip("precision", "the report has no figures")
    elif key_side is None:
        checks.skip("precision", "the figures were NOT checked: that takes the secret key")
    else:
        side = key_side
        checks.make(
            "precision",
            "every checkpoint decrypted and compared again",
            lambda: _figures(report, run, side, progress),
        )
    stated = report.get("verdict")
    word = stated.get("verdict") if isinstance(stated, dict) else None
    return Outcome(tuple(checks.findings), word if isinstance(word, str) else "INCOMPLETE")


class _Checks:
    """Findings as they come; one that fails does not keep the next from being made."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []

    def skip(self, name: str, why: str) -> None:
        self.findings.append(Finding(name, UNCHECKED, why))

    def make(self, name: str, words: str, check: Callable[[], Any]) -> Any:  # noqa: ANN401
        """Return what a check returns, or None where it failed."""
        try:
            result = check()
        except UnavailableError as error:
            self.skip(name, str(error))
        except (HeChainError, CryptoError) as error:
            self.findings.append(Finding(name, FAILED, str(error)))
        else:
            self.findings.append(Finding(name, VERIFIED, words))
            return result
        return None


def _same(report: Json, run: Run) -> None:
    """Build the report again, with its own figures, and compare it part by part."""
    stated = report.get("measured")
    try:
        measurement = None if stated is None else measurement_from_json(stated)
        built = build_report(run, measurement)
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"the report's figures are damaged: {error}") from None
    for name in sorted({*built, *report}):
        if encode_report({name: built.get(name)}) != encode_report({name: report.get(name)}):
            raise CheckpointError(f"the report's `{name}` is not what the run and figures give")
    if measurement is not None:
        places = [(c.number, c.tensor, c.position, c.layer) for c in measurement.checkpoints]
        if encode_report({"at": places}) != encode_report({"at": expected(run.records)}):
            raise CheckpointError("the report's figures are not of the run's checkpoints")


def _blobs(run: Run) -> None:
    for record in run.records:
        for blob in (*record.inputs, *record.outputs):
            run.read_blob(blob)


def _levels(run: Run) -> None:
    check_levels(run.begin, run.records)


def _security(run: Run) -> None:
    begin = run.begin
    line = security_line(begin.parameters, begin.backend, begin.protocol)
    if line != begin.security:
        raise SecurityError(f"of these parameters this is true: {line}")


def _claims(run: Run) -> None:
    if not set(CLAIMS[run.begin.protocol]) <= set(run.begin.claims):
        raise CheckpointError(f"the run leaves out what {run.begin.protocol} does not protect")


def _model(run: Run, wanted: bytes) -> None:
    if run.begin.model_digest != wanted:
        raise CheckpointError(f"the run is of model {run.begin.model_digest.hex()}")


def _plan(run: Run, plan_of: Callable[[Begin], tuple[bytes, bytes]]) -> None:
    if plan_of(run.begin) != (run.begin.plan_digest, run.begin.calibration_digest):
        raise CheckpointError("the run stands on another plan or calibration")


def _figures(report: Json, run: Run, side: KeySide, progress: Callable[[int, int], None]) -> None:
    """Measure again and compare with what is printed, digit by digit."""
    stated = measurement_from_json(report["measured"])
    missing = sorted(set(stated.references) - side.references.keys())
    if missing:
        raise UnavailableError(f"the figures against {', '.join(missing)} need that reference")
    references = {name: side.references[name] for name in stated.references}
    found = measure(run, side.holder, references, progress=progress)
    if encode_report(measurement_as_json(found)) == encode_report(report["measured"]):
        return
    for ours, theirs in zip(found.checkpoints, stated.checkpoints, strict=False):
        if ours != theirs:
            bits = {name: figures.bits for name, figures in ours.against.items()}
            raise ProtocolError(f"record {ours.number}, {ours.tensor}: measured again, bits {bits}")
    raise ProtocolError(f"{len(found.checkpoints)} checkpoints, not {len(stated.checkpoints)}")
