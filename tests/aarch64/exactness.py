"""What an emulated processor computes, for comparison with this machine; prints one JSON object.

    exactness.py MODEL ...

The digest of a VQF file, then for each fixed model, on one thread and on two, digests of logits and
residuals, the trace root and sampled tokens. How long the models took goes to stderr.
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
from typing import Any

from engine.convert.convert import convert
from simd.target import TARGET
from tests.engine.convert.support import tiny_folder
from tests.engine.kernels.fixed import computed

CHECKPOINT = "qwen3_tiny"


def converted_file() -> str:
    """Return the digest of all bytes of a file quantised from a tiny checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        source = tiny_folder(Path(folder) / CHECKPOINT, CHECKPOINT)
        target = Path(folder) / "q4.vqf"
        convert(source, target, quant="q4")
        return hashlib.sha256(target.read_bytes()).hexdigest()


def main(names: Sequence[str]) -> None:
    """Compute and report."""
    found: dict[str, Any] = {"file": converted_file()}
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
