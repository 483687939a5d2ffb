"""What the language's words mean, by compiled functions that use them."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from simd.build import Compiled, inline, signature
from simd.code import I8, I32, I64, Code, Features, Val, vec
from simd.target import TARGET

# isort: split
from numba import cfunc

V8 = vec(I32, 8)


def compiled(emit: Any) -> Any:
    """Compile a function of one address; return numba's C function."""
    body = inline(emit, 1)

    def function(address: int) -> Any:
        return body(address)

    return cfunc(signature(1))(function)


def applied(emit: Any, words: list[int]) -> list[int]:
    """Run `emit(code, vector of eight words) -> vector of eight words`."""

    def whole(code: Code, address: Val) -> None:
        code.store(emit(code, code.load(V8, address)), address)

    memory = np.array(words, np.uint32)
    function = compiled(whole)
    function.ctypes(memory.ctypes.data)
    return [int(word) for word in memory]


WORDS = [0, 1, 0x80000000, 0xFFFFFFFF, 0x12345678, 7, 0xDEADBEEF, 0x7FFFFFFF]


@pytest.mark.parametrize("bits", [1, 7, 8, 16, 31])
def test_rotations(bits: int) -> None:
    found = applied(lambda code, x: x.rotate_left(bits), WORDS)
    assert found == [(w << bits | w >> (32 - bits)) & 0xFFFFFFFF for w in WORDS]


def test_unsigned_comparison() -> None:
    limit = 0x80000001
    found = applied(lambda code, x: x.below(code.const(V8, limit)).zext(V8), WORDS)
    assert found == [int(w < limit) for w in WORDS]
    signed = applied(lambda code, x: (x < code.const(V8, limit)).zext(V8), WORDS)
    assert signed != found


def test_tables_and_joins() -> None:
    def emit(code: Code, x: Val) -> Val:
        halves = [x.shuffle(list(range(i, i + 4))) for i in (0, 4)]
        return halves[1].join(halves[0]) + code.table(V8, range(8))

    assert applied(emit, WORDS) == [
        (w + i) & 0xFFFFFFFF for i, w in enumerate(WORDS[4:] + WORDS[:4])
    ]


def test_copies() -> None:
    def emit(code: Code, address: Val) -> None:
        code.copy(address + 100, address, code.load(I64, address + 200))

    memory = np.arange(256, dtype=np.uint8)
    memory[200:208].view(np.int64)[0] = 37
    before = memory.copy()
    compiled(emit).ctypes(memory.ctypes.data)
    assert memory[100:137].tobytes() == before[:37].tobytes()
    memory[100:137] = before[100:137]
    assert np.array_equal(memory, before)


def test_a_subroutine_is_written_once_and_called_often() -> None:
    written = []

    def triple(code: Code, x: Val) -> Val:
        written.append(1)
        return x * 3

    def emit(code: Code, x: Val) -> Val:
        once = code.subroutine("triple", triple, x)
        return code.subroutine("triple", triple, once) + 1

    function = compiled(emit)
    assert function.ctypes(5) == 46
    assert len(written) == 1


def test_a_subroutine_without_a_result_gives_zero() -> None:
    def nothing(code: Code, address: Val) -> None:
        code.store(code.const(I8, 9), address)

    memory = np.zeros(8, np.uint8)
    function = compiled(lambda code, address: code.subroutine("nothing", nothing, address))
    assert function.ctypes(memory.ctypes.data) == 0
    assert memory.tolist() == [9] + [0] * 7


@pytest.mark.skipif(TARGET.cpu_name == "generic", reason="instructions of x86-64")
def test_features_belong_to_a_subroutine_alone() -> None:
    def product(code: Code, address: Val) -> None:
        x = code.load(vec(I32, 16), address)
        code.store(x.rotate_left(3), address)

    def emit(code: Code, address: Val) -> None:
        code.subroutine("wide", product, address, features=Features("x86-64-v4", "-prefer-256-bit"))
        code.subroutine("narrow", product, address)

    library: Any = vars(compiled(emit))["_library"]
    wide, narrow = (
        library.get_asm_str().partition(f"\n{name}:\n")[2].partition("retq")[0]
        for name in ("wide", "narrow")
    )
    assert "vprold" in wide
    assert "%zmm" in wide
    assert "vpslld" in narrow
    assert "%zmm" not in narrow


def test_a_compiled_function_has_an_address_to_call() -> None:
    body = inline(lambda code, a, b: a * b, 2)

    def product(a: int, b: int) -> Any:
        return body(a, b)

    declared = Compiled(product, 2)
    declared._compiled = cfunc(signature(2))(product)  # a local function has no cache
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(declared.address)
    assert declared.name == "product"
    assert call(-6, 7) == -42
