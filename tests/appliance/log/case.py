"""A log in a folder, with a key of its own, and what is asked of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from appliance.log.anchor import FileAnchor
from appliance.log.create import create_log
from appliance.log.errors import LogDamageError
from appliance.log.files import LogFiles
from appliance.log.log import Log
from appliance.log.writer import Limits
from crypto.merkle import leaf_hash, verify_consistency, verify_inclusion
from crypto.signer import SoftwareSigner
from tests.crypto.sm2_case import key_of

KEY = key_of(0x10C)
SIGNER = SoftwareSigner(KEY)
KEYS = {SIGNER.key_id: SIGNER.public_key}
START_MS = 1_800_000_000_000
SMALL = Limits(segment_entries=8)


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self, now_ms=START_MS):
        self.now_ms = now_ms

    def __call__(self):
        return self.now_ms


@dataclass
class Case:
    """A log and its anchor in a folder."""

    base: Path
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self):
        self.folder = self.base / "log"
        self.anchor = FileAnchor(self.base / "anchor")
        create_log(self.folder, **self.settings())

    def settings(self):
        return {
            "signer": SIGNER, "issuer": "tests", "anchor": self.anchor, "clock": self.clock,
        }  # fmt: skip

    def start(self, **settings):
        return Log(self.folder, **{**self.settings(), "limits": SMALL, **settings})

    def files(self, archive=None):
        return LogFiles(self.folder, archive)

    def fill(self, count, **settings):
        """Start the log, append so many entries, one batch each, and close it."""
        with self.start(**settings) as log:
            for number in range(count):
                log.append(entry(f"entry {number}"))
            return log.head

    def last_file(self):
        return max(self.folder.glob("*.log"))


def entry(text):
    """Return what makes an entry with this text."""
    return lambda position: f"{text} at {position.index}".encode()


def verify(committed):
    """Check the proofs of an entry as a stranger would."""
    position, head = committed.position, committed.head
    verify_inclusion(
        *(leaf_hash(committed.entry), position.index, head.size),
        *(committed.inclusion, head.root),
    )
    verify_consistency(
        *(position.earlier_size, position.earlier_root, head.size, head.root),
        committed.consistency,
    )


def refused(start, *arguments, **settings):
    """Return the error with which a start is refused."""
    with pytest.raises(LogDamageError) as caught:
        start(*arguments, **settings).close()
    return caught.value
