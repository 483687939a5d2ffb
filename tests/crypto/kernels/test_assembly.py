"""Compiled code consists of the instructions that it is for, also where they cannot be executed."""

from __future__ import annotations

import platform
import re
from typing import Any

import pytest

from crypto.kernels.variants import VARIANTS
from simd.build import signature

# isort: split
from numba import cfunc

pytestmark = [
    pytest.mark.skipif(platform.machine() != "x86_64", reason="instructions of x86-64"),
    pytest.mark.slow,
    pytest.mark.ci,
]

WIDE, NARROW = r"\s[^\n]*%zmm", r"\s[^\n]*%ymm"
EXPECTED = {
    "avx512-gfni": [rf"vgf2p8affineinvqb{WIDE}", rf"vprold{WIDE}", rf"vpternlogd{WIDE}"],
    "avx2-gfni": [rf"vgf2p8affineinvqb{NARROW}", rf"vpshufb{NARROW}"],
    "avx2-vaes": [rf"vaesenclast{NARROW}", rf"vpshufb{NARROW}"],
    "avx2-aes": [r"vaesenclast\s[^\n]*%xmm", rf"vpshufb{NARROW}"],
}
ABSENT = {
    "avx512-gfni": ["aesenclast"],
    "avx2-gfni": ["%zmm", "aesenclast"],
    "avx2-vaes": ["%zmm", "gf2p8"],
    "avx2-aes": ["%zmm", "gf2p8", rf"aesenclast{NARROW}"],
}


@pytest.mark.parametrize("name", EXPECTED)
def test_instructions(name: str) -> None:
    variant = next(v for v in VARIANTS if v.name == name)
    library: Any = vars(cfunc(signature(1))(variant.function.function))["_library"]
    text = library.get_asm_str()
    assert [pattern for pattern in EXPECTED[name] if not re.search(pattern, text)] == []
    assert [pattern for pattern in ABSENT[name] if re.search(pattern, text)] == []
    # Nothing is called but its own functions and copies of memory.
    declared = re.findall(r'^declare [^@]*@"?([^"(\s]+)', library.get_llvm_str(), re.MULTILINE)
    assert [called for called in declared if not called.startswith("llvm.")] == []
