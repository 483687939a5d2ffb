"""What an audit computes on an emulated processor; prints one JSON object.

replay.py THREADS
"""

from __future__ import annotations

import sys

from tests.engine.audit.fixed import main

if __name__ == "__main__":
    main(int(sys.argv[1]))
