"""What the set-up gives up with, and how it says something."""

from __future__ import annotations

import sys


class SetupError(Exception):
    """The set-up cannot go on; the text is one line for whoever looks at the console."""


def say(text: str) -> None:
    """Write a line to the journal and the console."""
    sys.stdout.write(f"windhover-setup: {text}\n")
    sys.stdout.flush()
