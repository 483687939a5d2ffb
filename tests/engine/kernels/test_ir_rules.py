"""Every kernel, the pool's loops and the sampling kernels keep the rules of NUMERICS 0.

Each rule is shown to find what it is for, in code that was compiled in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engine.kernels import ops
from engine.kernels.build import body
from simd.code import F32, F32X16, F64, I64, Code, Val, vec
from simd.target import TARGET
from tests.engine.kernels.ir_rules import (
    ASM_RULES,
    IR_RULES,
    MAY_USE_DOUBLE,
    Compiled,
    compile_entry,
    compile_kernel,
    declared,
    kernels,
    pool_entries,
    sampling_entries,
    violations,
)

KERNELS = kernels()
SAMPLING = sampling_entries()


def with_marks(names: list[str], *slow: str) -> list[object]:
    """Mark names that begin like one of `slow`."""
    marks = (pytest.mark.slow, pytest.mark.ci)
    return [pytest.param(n, marks=marks if n.startswith(slow) else ()) for n in names]


@pytest.mark.parametrize("name", with_marks(list(KERNELS), "linear_q", "embed_q", "attention"))
def test_kernels(name: str) -> None:
    code = compile_kernel(KERNELS[name].function)
    assert f"3ops{len(name)}{name}B" in code.ir
    assert not violations(code, may_use_double=name in MAY_USE_DOUBLE)
    assert not declared(code)


def test_these_are_all_kernels() -> None:
    found = set(KERNELS.values())
    assert found > {*ops.LINEAR.values(), *ops.EMBED.values()}
    assert {"norm", "quantise", "attention", "attention_single", "rotate"} <= KERNELS.keys()


@pytest.mark.parametrize("name", list(pool_entries()))
def test_the_pool(name: str) -> None:
    code = compile_entry(pool_entries()[name])
    assert not violations(code)
    assert "syscall" in declared(code)


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("name", list(SAMPLING))
def test_sampling(name: str) -> None:
    assert not violations(compile_entry(SAMPLING[name], error_model="numpy"))


def test_the_table_of_angles_does_use_double() -> None:
    code = compile_kernel(KERNELS["rope_table"].function)
    assert violations(code).keys() == {"double"}


def read(code: Code, instruction: Val, kind: object = F32X16) -> Val:
    """Read numbers at the instruction's address, which the compiler knows nothing of."""
    return code.load(kind, instruction)


def flagged(code: Code, instruction: Val, flag: str) -> Val:
    x = read(code, instruction)
    return Val(code, code.builder.fadd(x.ir, x.ir, flags=(flag,)))


def double(code: Code, instruction: Val) -> Val:
    return read(code, instruction, F64) * read(code, instruction + 8, F64)


def fused(code: Code, instruction: Val) -> Val:
    x = read(code, instruction)
    return code.overloaded("llvm.fma", x, x, read(code, instruction + 64))


def fused_if_cheap(code: Code, instruction: Val) -> Val:
    x = read(code, instruction)
    return code.overloaded("llvm.fmuladd", x, x, read(code, instruction + 64))


def contracted(code: Code, instruction: Val) -> Val:
    x, builder = read(code, instruction), code.builder
    product = builder.fmul(x.ir, x.ir, flags=("contract",))
    return Val(code, builder.fadd(product, read(code, instruction + 64).ir, flags=("contract",)))


def reduced(code: Code, instruction: Val) -> Val:
    x = read(code, instruction)
    zero = code.const(F32, 0.0)
    return code.call("llvm.vector.reduce.fadd.v16f32", F32, zero, x)


def approximated(code: Code, instruction: Val) -> Val:
    eight = vec(F32, 8)
    return code.call("llvm.x86.avx.rcp.ps.256", eight, read(code, instruction, eight))


def library(code: Code, instruction: Val) -> Val:
    return code.call("expf", F32, read(code, instruction, F32))


def library_by_intrinsic(code: Code, instruction: Val) -> Val:
    return code.overloaded("llvm.sin", read(code, instruction, F32))


BAD: list[tuple[Callable[[Code, Val], Val], set[str]]] = [
    (double, {"double"}),
    (fused, {"fused", "fused instruction"}),
    (fused_if_cheap, {"fused", "fused instruction"}),
    (contracted, {"fast-math flag", "fused instruction"}),
    (reduced, {"float reduction"}),
    (approximated, {"approximation", "approximate instruction"}),
    (library, {"library", "library call"}),
    (library_by_intrinsic, {"library", "library call"}),
]
FLAGS = ("fast", "nnan", "ninf", "nsz", "arcp", "contract", "afn", "reassoc")


def compile_bad(emit: Callable[[Code, Val], Val]) -> Compiled:
    """Compile a kernel that stores what `emit` computes."""

    def whole(code: Code, instruction: Val, step: Val, _thread: Val) -> None:
        code.store(emit(code, instruction), step)

    intrinsic = body(whole)

    def kernel(instruction: int, step: int, thread: int) -> Any:
        return intrinsic(instruction, step, thread)

    return compile_kernel(kernel)


@pytest.mark.parametrize(("emit", "rules"), BAD, ids=[emit.__name__ for emit, _ in BAD])
def test_the_rules_find_what_they_are_for(
    emit: Callable[[Code, Val], Val], rules: set[str]
) -> None:
    if TARGET.cpu_name == "generic" and emit is approximated:
        pytest.skip("an instruction of x86-64")
    assert rules <= violations(compile_bad(emit)).keys()


@pytest.mark.parametrize("flag", FLAGS)
def test_every_fast_math_flag_is_found(flag: str) -> None:
    code = compile_bad(lambda code, instruction: flagged(code, instruction, flag))
    assert "fast-math flag" in violations(code)


def test_every_rule_has_code_that_breaks_it() -> None:
    broken = set().union(*(rules for _, rules in BAD))
    # No way leads from this IR language to the old floating-point unit.
    assert broken == IR_RULES.keys() | ASM_RULES.keys() - {"x87 instruction"}
    assert ASM_RULES["x87 instruction"].search("\tflds\t(%rax)\n")


def test_clean_code_breaks_no_rule() -> None:
    def clean(code: Code, instruction: Val) -> Val:
        x, y = read(code, instruction), read(code, instruction + 64)
        return code.sqrt(code.rint(x * y + x) / y - code.negate(x))

    code = compile_bad(clean)
    assert not violations(code)
    assert not declared(code)
    assert "fmul <16 x float>" in code.ir


def test_calls_outwards_are_seen() -> None:
    def outwards(code: Code, instruction: Val) -> Val:
        return code.call("getpid", I64, instruction)

    assert declared(compile_bad(outwards)) == {"getpid"}
