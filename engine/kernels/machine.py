"""What differs between CPU families outside arithmetic: control words, hints, system calls."""

from __future__ import annotations

import platform
from typing import Any, Final

from llvmlite import binding, ir

from simd.code import I8, I32, I64, Code, Val

_IS_X86: Final = platform.machine() == "x86_64"
_SYS_FUTEX: Final = 202 if _IS_X86 else 98
_SYS_SCHED_YIELD: Final = 24 if _IS_X86 else 124
_FUTEX_WAIT_PRIVATE: Final = 128
_FUTEX_WAKE_PRIVATE: Final = 129
_MXCSR: Final = 0x1F80
if _IS_X86:
    binding.initialize_native_asmparser()  # for what is spelled out below


def _call_void(code: Code, name: str, *arguments: Any) -> None:
    module = code.builder.module
    function_type = ir.FunctionType(ir.VoidType(), [a.type for a in arguments])
    function = module.globals.get(name) or ir.Function(module, function_type, name)
    code.builder.call(function, arguments)


def set_float_control(code: Code) -> None:
    """Round to nearest even, no flush to zero, no traps in the calling thread (NUMERICS N12)."""
    if _IS_X86:
        slot = code.buffer(I32)
        code.store(code.const(I32, _MXCSR), slot, align=4)
        _call_void(code, "llvm.x86.sse.ldmxcsr", code.pointer(slot, I8))
    else:
        _call_void(code, "llvm.aarch64.set.fpcr", code.i64(0).ir)


def add_in_order(code: Code, sum_so_far: Val, more: Val) -> Val:
    """Add int16 lanes with AVX2's vpaddw, in a chain that stays as it is written.

    LLVM would make trees of the chain, whose leaves find no free registers. Its saturating addition
    it leaves alone, but that runs on the ports that the products need.
    """
    kind = ir.FunctionType(sum_so_far.type, [sum_so_far.type, more.type])
    add = ir.InlineAsm(kind, "vpaddw $2, $1, $0", "=x,x,x")
    return code.val(code.builder.call(add, [sum_so_far.ir, more.ir]))


def spin_hint(code: Code) -> None:
    """Tell the CPU that this is a spin loop."""
    if _IS_X86:
        _call_void(code, "llvm.x86.sse2.pause")
    else:
        _call_void(code, "llvm.aarch64.hint", code.const(I32, 1).ir)


def yield_processor(code: Code) -> None:
    """Let another thread that is ready run."""
    code.call("syscall", I64, *[code.i64(n) for n in (_SYS_SCHED_YIELD, 0, 0, 0, 0, 0, 0)])


def sleep_while(code: Code, address: Val, value: Val) -> None:
    """Sleep until `wake_all(address)`, unless the int32 there differs from `value`."""
    arguments = [code.i64(_SYS_FUTEX), address, code.i64(_FUTEX_WAIT_PRIVATE), value.sext(I64)]
    code.call("syscall", I64, *arguments, code.i64(0), code.i64(0), code.i64(0))


def wake_all(code: Code, address: Val) -> None:
    """Wake every thread that sleeps on the address."""
    arguments = [code.i64(_SYS_FUTEX), address, code.i64(_FUTEX_WAKE_PRIVATE), code.i64(2**31 - 1)]
    code.call("syscall", I64, *arguments, code.i64(0), code.i64(0), code.i64(0))
