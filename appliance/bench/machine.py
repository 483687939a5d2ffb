"""Facts of the machine and the software, kept beside every number that was measured there."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Final

FLAGS: Final = (
    "avx2", "f16c", "fma", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "gfni", "avx_vnni",
    "amx_int8", "asimd", "asimddp", "i8mm", "sve",
)  # fmt: skip
"""Instruction sets that decide how fast a kernel of either engine can be."""

PACKAGES: Final = ("windhover", "numpy", "numba", "llvmlite", "tokenizers")


def machine_facts() -> dict[str, object]:
    """Return processor, memory, operating system and versions of packages."""
    processor = _fields(Path("/proc/cpuinfo"))
    flags = set(processor.get("flags", processor.get("Features", "")).split())
    memory = _fields(Path("/proc/meminfo")).get("MemTotal", "0 kB")
    return {
        "cpu": processor.get("model name", platform.machine()),
        "architecture": platform.machine(),
        "usable_cores": len(os.sched_getaffinity(0)),
        "flags": [flag for flag in FLAGS if flag in flags],
        "memory_bytes": int(memory.split()[0]) * 1024,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def load_average() -> float:
    """Return how many processes ran or waited over the last minute: whether a machine was quiet."""
    return round(os.getloadavg()[0], 2)


def _fields(path: Path) -> dict[str, str]:
    """Read `name : value` lines; the first of a name counts."""
    found: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        name, separator, value = line.partition(":")
        if separator:
            found.setdefault(name.strip(), value.strip())
    return found


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
