"""Prints what kernels of other targets consist of, from a process that could not execute them.

    python -m tests.engine.kernels.wide_assembly avx512|aarch64 [KERNEL ...]

The processor's description is replaced before the target is chosen; kernels are compiled for that
target and read, never run. For `aarch64` the portable path's IR is given to LLVM's generator for
that machine. One JSON object: for each kernel the broken rules and counts of instructions.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

V4 = "avx2 f16c fma bmi1 bmi2 movbe avx512f avx512bw avx512cd avx512dq avx512vl avx512_vnni gfni"
COUNTED = {
    "avx512": {"dot products": r"\bvpdpbusd\b", "wide registers": r"%zmm"},
    "aarch64": {"vector products": r"\bs?mull?2?\s+v|\bmla\s+v", "vectors": r"\bv\d+\.4s\b"},
}


def pretend_to_have_avx512() -> None:
    """Let the next look at the processor see AVX-512."""
    read_text = Path.read_text

    def pretend(self: Path, *arguments: Any, **options: Any) -> str:
        if str(self) == "/proc/cpuinfo":
            return f"flags\t\t: {V4}\n"
        return read_text(self, *arguments, **options)

    Path.read_text = pretend  # type: ignore[method-assign]


def for_aarch64(llvm_ir: str) -> str:
    """Return the assembly of portable IR on an ARM machine."""
    llvm = importlib.import_module("llvmlite.binding")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple = "aarch64-unknown-linux-gnu"
    machine = llvm.Target.from_triple(triple).create_target_machine(
        cpu="generic", features="+neon", opt=3
    )
    text = re.sub(r'^target (datalayout|triple) = ".*"\n', "", llvm_ir, flags=re.MULTILINE)
    text = re.sub(r'"(?:target-cpu|target-features|tune-cpu)"="[^"]*"', "", text)
    module = llvm.parse_assembly(text)
    module.triple = triple
    module.data_layout = str(machine.target_data)
    return str(machine.emit_assembly(module))


def main(name: str, *wanted: str) -> None:
    """Compile the wanted kernels, or all, and report."""
    os.environ["WINDHOVER_KERNEL_PATH"] = "avx512" if name == "avx512" else "portable"
    if name == "avx512":
        pretend_to_have_avx512()
    rules = importlib.import_module("tests.engine.kernels.ir_rules")
    found = {}
    kernels = rules.kernels()
    for kernel_name in wanted or kernels:
        code = rules.compile_kernel(kernels[kernel_name].function)
        if name == "aarch64":
            code = code._replace(asm=for_aarch64(code.ir))
        allowed = kernel_name in rules.MAY_USE_DOUBLE
        found[kernel_name] = {
            "broken": rules.violations(code, may_use_double=allowed),
            "declared": sorted(rules.declared(code)),
            **{what: len(re.findall(pattern, code.asm)) for what, pattern in COUNTED[name].items()},
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
