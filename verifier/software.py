"""What the auditor's software manifests make of a software digest (SPEC.md section 6)."""

from __future__ import annotations

from verifier import objects
from verifier.case import Case, StepError, read_object

OK = "ok"
DIFFERS = "software-differs"
LAPSES = ("revoked", "expired", "not-yet-valid")


class Software:
    """A manifest's result; release and signer, by its name, only where it is believed."""

    __slots__ = ("release", "result", "signer")

    def __init__(self, result: str, release: str | None = None, signer: str | None = None) -> None:
        self.result, self.release, self.signer = result, release, signer

    def as_dict(self) -> dict[str, str | None]:
        """Return it in the form of the report's JSON."""
        return {"result": self.result, "release": self.release, "signed_by": self.signer}


def judge(case: Case, data: bytes) -> Software:
    """Return what one manifest is worth; it has no influence on the verdict."""
    try:
        sign1, claims = read_object(data, "software")
    except StepError:
        return Software("software-format")
    key = case.key(sign1.key_id, "software")
    if key is None:
        return Software("software-unknown-signer")
    if not case.verifies(sign1, key):
        return Software("software-bad-signature")
    if not (case.passed(3) and case.passed(5)):
        return Software("software-no-statement")
    started = case.claims[objects.STARTED]
    lapses = {*case.lapses(key, started, started), *(["revoked"] if case.is_revoked(key) else [])}
    for lapse in LAPSES:
        if lapse in lapses:
            return Software(f"software-key-{lapse}")
    release = f"{claims[objects.PRODUCT]} {'.'.join(map(str, claims[objects.VERSION]))}"
    is_same = claims[objects.SOFTWARE] == case.claims[objects.SOFTWARE]
    return Software(OK if is_same else DIFFERS, release, key.name)
