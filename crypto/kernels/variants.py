"""The sets of instructions that there are kernels for, and which of them a CPU has."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from crypto.kernels.driver import Driver
from crypto.kernels.sm3_lanes import Compression
from crypto.kernels.sm4_lanes import CounterMode
from crypto.kernels.sm4_machines import Aes, Gfni, GfniSpelledOut, Machine
from simd.build import Compiled, inline
from simd.code import Features

# isort: split
from llvmlite import binding as llvm

_V3: Final = "x86-64-v3"
_V4: Final = "x86-64-v4"


class Variant(NamedTuple):
    """One set of instructions and the function made for it.

    name: for reports. path: the kernel path (`simd.target`) that it belongs to. needs: features
    that a CPU must have beyond those of the path. driver: what writes the function. function: takes
    the address of a job (`crypto.kernels.job`).
    """

    name: str
    path: str
    needs: frozenset[str]
    driver: Driver
    function: Compiled


def _wide(machine: Machine, features: Features | None) -> Driver:
    """Sixteen lanes: 32 registers of 64 bytes hold four groups of blocks."""
    compression = Compression(16, has_rotate=True)
    return Driver("wide", compression, CounterMode(machine, 16, 4), features)


def _narrow(machine: Machine, features: Features) -> Driver:
    """Eight lanes: 16 registers of 32 bytes."""
    compression = Compression(8, has_rotate=False)
    return Driver("narrow", compression, CounterMode(machine, 8, 3), features)


_AVX512: Final = _wide(Gfni(), Features(_V4, "+gfni,-prefer-256-bit"))
_EMULATED: Final = _wide(GfniSpelledOut(), None)
_GFNI: Final = _narrow(Gfni(), Features(_V3, "+gfni"))
_VAES: Final = _narrow(Aes(is_wide=True), Features(_V3, "+aes,+vaes"))
_AES: Final = _narrow(Aes(is_wide=False), Features(_V3, "+aes"))

_avx512_code, _emulated_code, _gfni_code, _vaes_code, _aes_code = (
    inline(driver.emit, 1) for driver in (_AVX512, _EMULATED, _GFNI, _VAES, _AES)
)


# One function of the module each, for numba finds a function's cache by its name.
def _avx512(job: int) -> Any:
    return _avx512_code(job)


def _emulated(job: int) -> Any:
    return _emulated_code(job)


def _gfni(job: int) -> Any:
    return _gfni_code(job)


def _vaes(job: int) -> Any:
    return _vaes_code(job)


def _aes(job: int) -> Any:
    return _aes_code(job)


VARIANTS: Final = tuple(
    Variant(name, path, frozenset(needs), driver, Compiled(function, 1))
    for name, path, needs, driver, function in (
        ("avx512-gfni", "avx512", (), _AVX512, _avx512),
        ("avx512-emulated", "avx512-emulated", (), _EMULATED, _emulated),
        ("avx2-gfni", "avx2", ("gfni",), _GFNI, _gfni),
        ("avx2-vaes", "avx2", ("aes", "vaes"), _VAES, _vaes),
        ("avx2-aes", "avx2", ("aes",), _AES, _aes),
    )
)


def cpu_features() -> frozenset[str]:
    """Return the instruction sets that the CPU itself reports, as LLVM names them.

    `simd.target` goes by what Linux says of the processor, which on an emulated one is the host's:
    paths are forced there, and what a path may find in addition has to be the truth.
    """
    return frozenset(name for name, has in llvm.get_host_cpu_features().items() if has)


def choose(path: str, features: frozenset[str]) -> Variant | None:
    """Return the best set of instructions of a path; None where nothing beats the libraries.

    Args:
        path: as of `simd.target`.
        features: as of `cpu_features`.
    """
    return next((v for v in VARIANTS if v.path == path and v.needs <= features), None)
