"""What compiled code may consist of: the rules of NUMERICS 0, read from LLVM IR and assembly."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from engine.kernels import ops, pool
from engine.kernels.build import SIGNATURE, Kernel

# isort: split
from numba import cfunc, njit
from numba.core.dispatcher import Dispatcher

# Kernels whose angles are binary64 (NUMERICS N7).
MAY_USE_DOUBLE = frozenset({"rope_table"})

_LIBRARY = (
    "(?:exp|exp2|exp10|expm1|log|log2|log10|log1p|pow|powi|sin|cos|tan|sincos|tanh|sqrt|fma|fmod"
    "|rint|nearbyint|round|floor|ceil|trunc|fmin|fmax|ldexp|frexp)[fl]?"
)
_FAST = "fast|nnan|ninf|nsz|arcp|contract|afn|reassoc"
IR_RULES = {
    "double": re.compile(r"\b(?:double|x86_fp80|fp128)\b"),
    "fast-math flag": re.compile(rf"=[^\n(]*\b(?:{_FAST})\b"),
    "fused": re.compile(
        r"@llvm\.(?:experimental\.constrained\.)?f(?:ma|muladd)\b|@llvm\.x86\.\S*vfn?m"
    ),
    "float reduction": re.compile(r"@llvm\.vector\.reduce\.f"),
    "approximation": re.compile(r"@llvm\.(?:x86|aarch64)\.[^\s(]*(?:rcp|rsqrt|frecp|frsqrt)"),
    "library": re.compile(
        rf'@"?(?:__)?{_LIBRARY}(?:_finite)?"?\(|@llvm\.(?:exp|ldexp|log|pow|sin|cos|tan)[^\n(]*\('
    ),
}
ASM_RULES = {
    "fused instruction": re.compile(
        r"\bvfn?m(?:add|sub)[a-z0-9]*\b|\b(?:fml[as]l?2?|fn?m(?:add|sub)|bfml[a-z]*)\b"
    ),
    "approximate instruction": re.compile(
        r"\bv?r(?:cp|sqrt)(?:14|28)?[ps][sd]\b|\bfr(?:ecp|sqrt)[esx]\b"
    ),
    "x87 instruction": re.compile(r"^\s+f(?:ld|add|mul|sub|div)[a-z]*\s+(?!v|s|d|h)", re.MULTILINE),
    "library call": re.compile(rf"[$\s:]{_LIBRARY}(?:@PLT)?(?:,|$)", re.MULTILINE),
}
_DECLARED = re.compile(r'^declare [^@]*@"?([^"(\s]+)"?\(', re.MULTILINE)


class Compiled(NamedTuple):
    """A compiled function as text."""

    ir: str
    asm: str


def violations(code: Compiled, *, may_use_double: bool = False) -> dict[str, str]:
    """Return the broken rules and the first text that breaks each."""
    found = {}
    for rules, text in ((IR_RULES, code.ir), (ASM_RULES, code.asm)):
        for name, pattern in rules.items():
            match = pattern.search(text)
            if match and not (name == "double" and may_use_double):
                start = text.rfind("\n", 0, match.start()) + 1
                found[name] = text[start : text.find("\n", match.start())].strip()
    return found


def declared(code: Compiled) -> set[str]:
    """Return the functions that the code calls and does not hold, LLVM's own left out."""
    return {name for name in _DECLARED.findall(code.ir) if not name.startswith("llvm.")}


def kernels() -> dict[str, Kernel]:
    """Return every kernel that a program may be made of."""
    return {k.name: k for k in vars(ops).values() if isinstance(k, Kernel)}


def compile_kernel(function: Any) -> Compiled:
    """Compile the function of a kernel anew: what comes from the cache cannot be read."""
    library: Any = vars(cfunc(SIGNATURE)(function))["_library"]
    return Compiled(library.get_llvm_str(), library.get_asm_str())


def compile_entry(dispatcher: Any, **options: Any) -> Compiled:
    """Compile an `njit` function of one signature anew."""
    signature = dispatcher.signatures[0]
    again = njit(signature, nogil=True, **options)(dispatcher.py_func)
    return Compiled(again.inspect_llvm(signature), again.inspect_asm(signature))


def pool_entries() -> dict[str, Any]:
    """Return the loops in which threads execute programs."""
    return {"run": pool._run, "work": pool._work}


def sampling_entries() -> dict[str, Any]:
    """Return the compiled entry points of sampling."""
    from engine.sampling import kernel  # which compiles them

    return {
        name: value
        for name, value in vars(kernel).items()
        if isinstance(value, Dispatcher)
        and value.py_func.__module__ == kernel.__name__
        and not name.startswith("_")
    }
