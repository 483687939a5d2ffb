"""What an emulated processor makes of a small compiled function; prints one JSON object.

The function adds products in ascending order in binary32, each product rounded, then each sum: the
shape of a float row of the engine. A compiler that fuses the two operations gives other bits.
"""

from __future__ import annotations

import importlib
import json
import platform
import time

import numpy as np

# what else the engine needs has to load on that processor, too
PACKAGES = (
    "cbor2",
    "click",
    "cryptography.hazmat.bindings._rust",
    "jinja2",
    "safetensors",
    "tokenizers",
)


def main() -> None:
    """Import numba, compile, compute, import the rest, report."""
    start_s = time.monotonic()
    numba = importlib.import_module("numba")
    imported_s = time.monotonic()

    @numba.njit
    def dot(a, b):
        total = np.float32(0)
        for i in range(a.shape[0]):
            total = total + a[i] * b[i]
        return total

    numbers = np.arange(1, 4097, dtype=np.float32)
    a = np.float32(1) / numbers
    b = np.sqrt(numbers)
    value = np.float32(dot(a, b))
    compiled_s = time.monotonic()

    expected = np.float32(0)
    for product in a * b:
        expected = expected + product
    for name in PACKAGES:
        importlib.import_module(name)
    report = {
        "machine": platform.machine(),
        "bits": f"{int(value.view(np.uint32)):08x}",
        "expected_bits": f"{int(expected.view(np.uint32)):08x}",
        "import_numba_s": round(imported_s - start_s, 1),
        "first_compile_s": round(compiled_s - imported_s, 1),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
