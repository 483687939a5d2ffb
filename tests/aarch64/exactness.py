"""What an emulated processor computes, for comparison with this machine; prints one JSON object.

    exactness.py MODEL ...

For each fixed model, on one thread and on two: digests of logits and residuals, the trace root,
sampled tokens. Then digests of VQF files converted from a tiny checkpoint, quantised and not.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from engine.convert.convert import convert
from engine.kernels.target import TARGET
from tests.engine.convert.support import tiny_folder
from tests.engine.kernels.fixed import computed

CHECKPOINT = "qwen3_tiny"
QUANTS = ("keep", "q4", "q8")


def conversions() -> dict[str, str]:
    """Return the digest of the file of each conversion."""
    digests = {}
    with tempfile.TemporaryDirectory() as folder:
        source = tiny_folder(Path(folder) / CHECKPOINT, CHECKPOINT)
        for quant in QUANTS:
            target = Path(folder) / f"{quant}.vqf"
            convert(source, target, quant=quant)
            digests[quant] = hashlib.sha256(target.read_bytes()).hexdigest()
    return digests


def main(names: Sequence[str]) -> None:
    """Compute and report; how long the parts took goes to stderr."""
    started_s = time.monotonic()
    found = {"conversions": conversions()}
    print(f"conversions: {time.monotonic() - started_s:.0f} s", file=sys.stderr)
    for name in names:
        started_s = time.monotonic()
        found[name] = {str(n): computed(name, n) for n in (1, 2)}
        print(f"{name}: {time.monotonic() - started_s:.0f} s", file=sys.stderr)
    found["target"] = {
        "machine": platform.machine(),
        "path": TARGET.path,
        "cpu_name": TARGET.cpu_name,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
