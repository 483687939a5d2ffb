"""The compilation target: which instruction sets kernels use, chosen before numba is imported.

Kernels are compiled for a few named targets, never for the host, so that a cache is byte-identical
from build to build and can be shipped, signed and covered by the software digest. numba reads its
target from the environment once, at import; this module must therefore be imported first, and
every kernel module begins by importing it.

A *path* is a choice of instructions (`avx512`, `avx2`, `portable`), a *target* what LLVM may use.
The setting `WINDHOVER_KERNEL_PATH` forces a path. `avx512-emulated` runs the tiles of the AVX-512
path with its dot-product
instruction spelled out in plain vector operations, on any CPU: how that path is tested where it
cannot be executed.

`WINDHOVER_KERNEL_CACHE` is the folder of numba's cache, `WINDHOVER_KERNEL_CACHE_USE` says what may
be done with it. The files hold pickles: who can write them runs code in this process.

    write   what is there is loaded, what is not is compiled and kept (the default)
    read    what is there is loaded, and nothing is compiled (`simd.locator`, `simd.compilation`)
    none    nothing is read or kept; everything is compiled
    prepare as `write`, for another CPU of this architecture: a process that compiles and runs none
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path

from simd.errors import ConfigError, UnsupportedCpuError
from simd.settings import CACHE_SETTING, PATH_SETTING, PATHS, USE_SETTING, USES

# Found by where they lie, for this package imports nothing that is written in its language.
_SOURCE_FOLDERS = ("simd", "crypto/kernels", "engine/kernels", "engine/sampling")
_V3_FLAGS = frozenset({"avx2", "f16c", "fma", "bmi1", "bmi2", "movbe"})
_V4_FLAGS = frozenset(
    {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512_vnni", "gfni"}
)


@dataclass(frozen=True, slots=True)
class Target:
    """What the kernels are compiled for: the path, and the CPU name and features given to LLVM."""

    path: str
    cpu_name: str
    cpu_features: str


_X86_V3 = ("x86-64-v3", "")
_X86_V4 = ("x86-64-v4", "+avx512vnni,+gfni,-prefer-256-bit")
_AARCH64 = ("generic", "+neon")


def cpu_flags() -> frozenset[str]:
    """Return the instruction-set flags of the first processor, as Linux names them."""
    for line in Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in {"flags", "Features"}:
            return frozenset(value.split())
    return frozenset()


def choose(
    machine: str, flags: frozenset[str], forced: str | None, *, is_run: bool = True
) -> Target:
    """Choose the target for a machine.

    Args:
        machine: `platform.machine()`.
        flags: as of `cpu_flags`.
        forced: one of `PATHS`, or None for the best that the CPU has.
        is_run: whether kernels are executed; a forced path is otherwise one that the CPU may lack.

    Raises:
        UnsupportedCpuError: x86-64 without AVX2 and F16C, another architecture, or a forced path
            that the CPU lacks.
        ConfigError: `forced` is not a path.
    """
    if forced is not None and forced not in PATHS:
        raise ConfigError(f"kernel path {forced!r} is not one of {', '.join(PATHS)}")
    if machine == "aarch64":
        if forced not in {None, "portable", "avx512-emulated"}:
            raise UnsupportedCpuError(f"kernel path {forced} needs an x86-64 CPU")
        return Target(forced or "portable", *_AARCH64)
    if machine != "x86_64":
        raise UnsupportedCpuError(f"no kernels for {machine}: x86-64 or aarch64 is needed")
    if not is_run and forced is not None:
        flags = _V3_FLAGS | _V4_FLAGS
    missing = sorted(_V3_FLAGS - flags)
    if missing:
        raise UnsupportedCpuError(f"this CPU lacks {', '.join(missing)}: AVX2 and F16C are needed")
    has_v4 = flags >= _V4_FLAGS
    path = forced or ("avx512" if has_v4 else "avx2")
    if path == "avx512":
        if not has_v4:
            lacking = ", ".join(sorted(_V4_FLAGS - flags))
            raise UnsupportedCpuError(
                f"kernel path avx512 is not possible: this CPU lacks {lacking}"
            )
        return Target(path, *_X86_V4)
    return Target(path, *_X86_V3)


def kernel_sources_digest() -> str:
    """Return a short digest of every source file that kernels are compiled from.

    numba notices a change in the file that defines a kernel, not in one that it imports; the cache
    folder is keyed by this.
    """
    digest = hashlib.sha256(sys.version.encode())
    root = Path(__file__).parent.parent
    for folder in _SOURCE_FOLDERS:
        for path in sorted((root / folder).glob("*.py")):
            name = path.relative_to(root).as_posix()
            digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def cache_use() -> str:
    """Return what may be done with the cache, one of `USES`.

    Raises:
        ConfigError: the setting is another word.
    """
    use = os.environ.get(USE_SETTING) or "write"
    if use not in USES:
        raise ConfigError(f"{USE_SETTING} is {use!r}, not one of {', '.join(USES)}")
    return use


def cache_folder(target: Target) -> Path:
    """Return the folder of the cache for a target and these sources."""
    base = os.environ.get(CACHE_SETTING)
    if base is None:
        cache_home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        base = str(Path(cache_home) / "windhover" / "kernels")
    return Path(base) / f"{target.path}-{target.cpu_name}-{kernel_sources_digest()}"


def configure() -> Target:
    """Set numba's target and cache folder in the environment and return the target.

    Raises:
        ConfigError: numba was imported before with another target, or a setting is no such word.
        UnsupportedCpuError: as of `choose`.
    """
    use = cache_use()
    forced = os.environ.get(PATH_SETTING) or None
    target = choose(platform.machine(), cpu_flags(), forced, is_run=use != "prepare")
    wanted = {
        "NUMBA_CPU_NAME": target.cpu_name,
        "NUMBA_CPU_FEATURES": target.cpu_features,
        "NUMBA_CACHE_DIR": str(cache_folder(target)),
        "NUMBA_CACHE_LOCATOR_CLASSES": "simd.locator.PreparedLocator" if use == "read" else "",
    }
    if "numba" in sys.modules and any(os.environ.get(k, "") != v for k, v in wanted.items()):
        raise ConfigError("numba was imported before simd.target could set its target")
    os.environ.update(wanted)
    return target


TARGET = configure()

CACHED = cache_use() != "none"
"""Whether kernels are looked for in the cache."""
