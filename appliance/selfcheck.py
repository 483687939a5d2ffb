"""The last look at a bundle before it leaves: an auditor's own program reads it first."""

from __future__ import annotations

import base64
from collections.abc import Set
from typing import Final

from appliance.bundle import Bundle
from crypto.errors import SelfTestError
from crypto.sm2 import PublicKey
from verifier.expectations import Expectations
from verifier.verify import read_trust, verify

_MUST_PASS: Final = frozenset({1, 2, 3, 4, 5, 6, 9, 10, 11, 12, 13, 14, 15, 16, 19, 20, 21})
"""Steps that depend on nobody's trust file: of A0, A1 and A2 all but mode, time and openings."""

_OPENINGS: Final = 18


class SelfCheck:
    """Verifies bundles of one key and one log."""

    def __init__(self, public_key: PublicKey, log_id: bytes) -> None:
        """Trust this key for this log, and nobody else."""
        key = base64.b64encode(public_key.spki_der()).decode("ascii")
        self._trust = read_trust(
            (
                f'version = 1\n[keys.self]\nrole = "attest"\npublic_key = "{key}"\n'
                f'[logs.self]\nid = "{log_id.hex()}"\n'
            ).encode("ascii")
        )

    def __call__(self, bundle: Bundle, covered: Set[str]) -> None:
        """Verify a bundle that is about to leave.

        Args:
            bundle: the bundle.
            covered: names of the commitments that have to open. The signature of the admission is
                not computed again: it was verified when it was made.

        Raises:
            SelfTestError: a step did not pass that has to, whoever verifies.
        """
        known = {} if bundle.admission is None else {bundle.admission: True}
        report = verify(bundle.encode(), self._trust, Expectations(), known)
        results = {step.number: (step.result, step.reason) for step in report.steps}
        # What an answer never had, such as the trace of one that was refused, cannot be opened.
        if results.get(_OPENINGS, ("failed", ""))[0] == "failed" or set(report.opened) != covered:
            raise SelfTestError("a bundle does not verify: what it opens is not what it covers")
        for number in sorted(_MUST_PASS):
            result, reason = results.get(number, ("not made", report.reason))
            if result != "passed":
                raise SelfTestError(f"a bundle does not verify: step {number} {result}: {reason}")
