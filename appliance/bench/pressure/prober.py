"""The process that asks `/health`: a new connection each time, until its standard input ends.

It imports little, so that what it measures is the service.
"""

from __future__ import annotations

import http.client
import json
import select
import sys
import time

_TIMEOUT_S = 30


def main() -> int:
    """Probe as the first argument says, and print what every probe took."""
    words = json.loads(sys.argv[1])
    taken: list[float | None] = []
    while True:
        begun = time.perf_counter()
        taken.append(_probe(words["host"], words["port"]))
        left = words["interval_s"] - (time.perf_counter() - begun)
        if select.select([sys.stdin], [], [], max(0.0, left))[0]:
            break
    sys.stdout.write(json.dumps(taken))
    return 0


def _probe(host: str, port: int) -> float | None:
    """Return milliseconds from connecting to the last byte; None where it is not answered."""
    connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)
    begun = time.perf_counter()
    try:
        connection.request("GET", "/health")
        response = connection.getresponse()
        response.read()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    passed = time.perf_counter() - begun
    return round(passed * 1e3, 3) if response.status == http.client.OK else None
