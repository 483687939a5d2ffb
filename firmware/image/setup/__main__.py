"""First steps of the appliance on its own machine: `disk`, before it is mounted, then `machine`."""

from __future__ import annotations

import sys

from disk import prepare_disk
from fault import SetupError, say
from places import here
from steps import prepare_machine

_STEPS = {"disk": prepare_disk, "machine": prepare_machine}


def main() -> int:
    """Do what the word says; return 0, or 1 with a line that says what failed."""
    if len(sys.argv) != 2 or sys.argv[1] not in _STEPS:
        say(f"usage: setup {'|'.join(_STEPS)}")
        return 2
    try:
        _STEPS[sys.argv[1]](here())
    except (SetupError, OSError, UnicodeError) as error:
        say(f"{sys.argv[1]} failed: {error}")
        return 1
    say(f"{sys.argv[1]} done")
    return 0


if __name__ == "__main__":
    sys.exit(main())
