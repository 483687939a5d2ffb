"""The process that verifies what is about to leave: nothing but the verifier runs in it.

It reads frames (u32 length, little-endian, and so many bytes) from standard input: a trust file,
then for each bundle the bundle and the admission in it whose signature is known to verify (no bytes
for none). For each bundle it writes one line of JSON. It ends with its input.
"""

from __future__ import annotations

import json
from typing import BinaryIO

from verifier.expectations import Expectations
from verifier.verify import read_trust, verify


def serve(source: BinaryIO, target: BinaryIO) -> None:
    """Answer until the input ends."""
    trust = None
    while (first := _frame(source)) is not None:
        if trust is None:
            trust = read_trust(first)
            continue
        admission = _frame(source)
        report = verify(first, trust, Expectations(), {admission: True} if admission else {})
        answer = {
            "steps": [[step.number, step.result, step.reason] for step in report.steps],
            "opened": list(report.opened),
            "reason": report.reason,
        }
        target.write(json.dumps(answer).encode("ascii") + b"\n")
        target.flush()


def _frame(source: BinaryIO) -> bytes | None:
    """Return the next frame, None at the end."""
    head = source.read(4)
    if len(head) < 4:
        return None
    return source.read(int.from_bytes(head, "little"))
