"""Which backends work here, and why the others do not; the memory and the processor.

Nothing is loaded into this process but what imports safely: Lattigo's libraries are tried in a
worker. Licences, versions and known traps are named, since "No module named" tells nobody why.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import os
import platform
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from he_chain.backends.elf import needed_versions
from he_chain.backends.lattigo_library import GRAPHS, KEYS, Package, find_library
from he_chain.backends.memory import available_bytes
from he_chain.backends.messages import Message
from he_chain.backends.worker import Limits, Worker
from he_chain.errors import BackendError, HeChainError

OPENFHE: Final = "openfhe"
TENSEAL: Final = "tenseal"
DESILO: Final = "desilofhe"
_OPENFHE_PYTHON: Final = (3, 10)
_TRY_S: Final = 30.0


@dataclass(frozen=True)
class Finding:
    """What was found of one backend."""

    name: str
    usable: bool
    text: str
    """One line: what works, or why it does not and what to do."""
    details: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Diagnosis:
    """All that was found."""

    python: str
    system: str
    glibc: str
    processor: str
    cores: int
    memory_bytes: int | None
    available_bytes: int | None
    backends: tuple[Finding, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON can say it."""
        return asdict(self)

    def to_text(self) -> str:
        """Return it as lines."""
        memory = " of ".join(_gib(v) for v in (self.available_bytes, self.memory_bytes))
        lines = [
            f"Python {self.python}, {self.system}, glibc {self.glibc}",
            f"{self.processor}, {self.cores} cores, {memory} of memory available",
        ]
        for found in self.backends:
            lines.append(f"{'ok ' if found.usable else 'no '} {found.name}: {found.text}")
            lines += [f"      {name}: {value}" for name, value in found.details.items()]
        return "\n".join(lines)


def diagnose() -> Diagnosis:
    """Look at this machine; takes a second or two, since workers are started."""
    return Diagnosis(
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
        glibc=platform.libc_ver()[1] or "unknown",
        processor=_processor(),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=_memory_bytes(),
        available_bytes=available_bytes(),
        backends=(mock(), seal(), lattigo(), openfhe(), desilo()),
    )


def mock() -> Finding:
    """Tell of the backend that needs no library."""
    return Finding("mock", usable=True, text="NumPy with calibrated noise; encrypts nothing")


def seal() -> Finding:
    """Tell of SEAL by way of TenSEAL: `assist` and `refresh`."""
    hint = "windhover[he] brings it"
    return _by_import("seal", TENSEAL, f"{TENSEAL}.sealapi", hint, "SEAL, for assist and refresh")


def lattigo() -> Finding:
    """Tell of Lattigo: `boot`. Its libraries are loaded by workers, each by its own."""
    details: dict[str, str] = {}
    for package, role in ((KEYS, "holder"), (GRAPHS, "evaluator")):
        name = f"{package.distribution} {package.version}"
        try:
            _load_in_worker(package, role)
        except HeChainError as error:
            return Finding("lattigo", usable=False, text=str(error), details=details)
        details[name] = "loads in a worker"
    text = "bootstrapping, for boot; 128 bits take N = 65536 and about 11 GiB"
    return Finding("lattigo", usable=True, text=text, details=details)


def _load_in_worker(package: Package, role: str) -> None:
    """Raise BackendError with the reason why a library cannot be loaded."""
    wanted = missing_versions(find_library(package))
    if wanted is not None:
        raise BackendError(wanted)
    command = ["-m", "he_chain.backends.lattigo_worker", role]
    with Worker(command, name=f"Lattigo ({role})", limits=Limits(call_s=_TRY_S)) as worker:
        worker.call(Message("usage"))


def openfhe() -> Finding:
    """Tell why OpenFHE's wheel does not import, which its `py3-none-any` tag promises."""
    unused = "not used by this project"
    found = _distribution(OPENFHE)
    if found is None:
        return Finding(OPENFHE, usable=False, text=f"not installed; {unused}")
    library = next(iter(sorted(_folder(OPENFHE).glob("openfhe*.so"))), None)
    if library is None:
        return Finding(OPENFHE, usable=False, text=f"{found} has no extension module; {unused}")
    if (wanted := missing_versions(library)) is not None:
        return Finding(OPENFHE, usable=False, text=f"{found}: {wanted}; {unused}")
    tag = f"cpython-{sys.version_info[0]}{sys.version_info[1]}"
    if tag not in library.name:
        text = (
            f"{found} holds {library.name} only: it needs that Python "
            f"({_OPENFHE_PYTHON[0]}.{_OPENFHE_PYTHON[1]} for the wheels of Ubuntu 22.04); {unused}"
        )
        return Finding(OPENFHE, usable=False, text=text)
    return Finding(OPENFHE, usable=False, text=f"{found} could be imported; {unused}")


def desilo() -> Finding:
    """Tell why DESILO's library is never used."""
    licence = "its licence allows non-commercial use only and no redistribution: never used here"
    found = _distribution(DESILO)
    where = "not installed" if found is None else f"{found} is installed"
    return Finding(DESILO, usable=False, text=f"{where}; {licence}")


def missing_versions(path: Path) -> str | None:
    """Return which versions of the system's libraries a library wants and does not get, or None.

    `GLIBC_` is compared with the running C library and `GLIBCXX_` with what its file defines.
    """
    running = _version(platform.libc_ver()[1])
    try:
        wanted = needed_versions(path)
    except BackendError as error:
        return str(error)
    lacking = [
        name for name in wanted if name.startswith("GLIBC_") and _version(name[6:]) > running
    ]
    cxx = [name for name in wanted if name.startswith("GLIBCXX_")]
    if cxx and not lacking:
        newest = max(cxx, key=lambda name: _version(name[8:]))
        lacking = [newest] if not _defines("libstdc++.so.6", newest) else []
    if not lacking:
        return None
    return f"{path.name} wants {', '.join(lacking)}, which this system's libraries do not have"


def _by_import(name: str, package: str, module: str, hint: str, what: str) -> Finding:
    found = _distribution(package)
    if found is None:
        return Finding(name, usable=False, text=f"{package} is not installed: {hint}")
    try:
        __import__(module)
    except (ImportError, OSError) as error:
        return Finding(name, usable=False, text=f"{found} does not import: {error}")
    return Finding(name, usable=True, text=f"{found}: {what}")


def _distribution(package: str) -> str | None:
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return None


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return Path(folders[0]) if folders else Path("/nonexistent")


def _version(text: str) -> tuple[int, ...]:
    parts = text.split(".")
    return tuple(int(part) for part in parts) if all(part.isdecimal() for part in parts) else (0,)


def _defines(library: str, version: str) -> bool:
    """Say whether a system library's file names a version; True where it cannot be read."""
    try:
        ctypes.CDLL(library)
        maps = Path("/proc/self/maps").read_text(encoding="ascii", errors="replace")
        path = next(line.split()[-1] for line in maps.splitlines() if library in line)
        return version.encode() + b"\0" in Path(path).read_bytes()
    except (OSError, StopIteration):
        return True


def _processor() -> str:
    return _first("/proc/cpuinfo", lambda line: line.partition(":")[2].strip(), "model name") or (
        platform.machine()
    )


def _memory_bytes() -> int | None:
    text = _first("/proc/meminfo", lambda line: line.split()[1], "MemTotal:")
    return int(text) * 1024 if text else None


def _first(path: str, value: Callable[[str], str], start: str) -> str | None:
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return next((value(line) for line in lines if line.startswith(start)), None)


def _gib(size: int | None) -> str:
    return "unknown" if size is None else f"{size / 2**30:.1f} GiB"
