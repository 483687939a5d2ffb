"""What the compiled kernels consist of: the rules of NUMERICS 0, read from their LLVM IR."""

from __future__ import annotations

import re

import pytest

from engine.sampling import kernel  # sets numba's target: must come before numba

# isort: split
from numba import njit

ENTRIES = ["prepare", "greedy", "draw", "log_total", "largest_ids"]
FAST_MATH = (
    r"\bf(?:add|sub|mul|div|neg|cmp)\b[^\n]*\b(?:fast|contract|reassoc|nnan|ninf|nsz|arcp|afn)\b"
)
LIBRARY = r"@\"?(?:exp|log|pow|sin|cos|rint|round|floor|ceil|fmin|fmax|fma)(?:f|l|2|10)?\"?\("


@pytest.fixture(scope="module")
def code() -> dict[str, str]:
    texts = {}
    for name in ENTRIES:
        entry = getattr(kernel, name)
        # What comes from the cache cannot be inspected.
        again = njit(entry.signatures[0], nogil=True, error_model="numpy")(entry.py_func)
        texts[name] = again.inspect_llvm(again.signatures[0])
    return texts


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("entry", ENTRIES)
def test_ir_holds_only_what_the_profile_allows(code: dict[str, str], entry: str) -> None:
    text = code[entry]
    assert f"6kernel{len(entry)}{entry}" in text
    assert not re.search(r"\bdouble\b", text)
    assert not re.search(FAST_MATH, text)
    assert not re.search(r"llvm\.(?:fma|fmuladd)\b", text)
    assert not re.search(r"llvm\.vector\.reduce\.f", text)
    assert not re.search(LIBRARY, text)


def test_these_are_all_entries() -> None:
    entries = [
        name
        for name, value in vars(kernel).items()
        if hasattr(value, "py_func")
        and value.py_func.__module__ == kernel.__name__
        and not name.startswith("_")
    ]
    assert sorted(entries) == sorted(ENTRIES)


@pytest.mark.parametrize(
    ("line", "pattern"),
    [
        ("%1 = fadd fast <8 x float> %2, %3", FAST_MATH),
        ("%1 = fmul contract float %2, %3", FAST_MATH),
        ("%1 = call float @expf(float %2)", LIBRARY),
        ('%1 = call float @"logf"(float %2)', LIBRARY),
    ],
)
def test_the_patterns_find_what_they_are_for(line: str, pattern: str) -> None:
    assert re.search(pattern, line)
