"""A small language for kernels: Python functions that write LLVM IR through values with operators.

A kernel body is a Python function over `Code` and `Val`: arithmetic on `Val` emits one instruction
each, so that it reads like pseudo-code for a SIMD machine and an order written down is the order
executed. No operation here carries a fast-math flag, and none contracts a product and a sum
(DESIGN rule: no fused multiply-add).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

from llvmlite import ir

I1, I8, I16, I32, I64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
F16, F32, F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()
IrType: TypeAlias = Any


def vec(element: IrType, lanes: int) -> IrType:
    """Return the vector type of `lanes` elements."""
    return ir.VectorType(element, lanes)


F32X16, I32X16 = vec(F32, 16), vec(I32, 16)


def _element(kind: IrType) -> IrType:
    return kind.element if isinstance(kind, ir.VectorType) else kind


def _is_float(kind: IrType) -> bool:
    return isinstance(_element(kind), ir.FloatType | ir.DoubleType | ir.HalfType)


class Val:
    """An SSA value with operators; integers are signed unless a method says otherwise."""

    __slots__ = ("code", "ir")

    def __init__(self, code: Code, value: Any) -> None:
        """Wrap the llvmlite value `value`."""
        self.code = code
        self.ir = value

    @property
    def type(self) -> IrType:
        """The LLVM type."""
        return self.ir.type

    def _other(self, other: Val | int) -> Any:
        return other.ir if isinstance(other, Val) else self.code.const(self.type, other).ir

    def _binary(self, other: Val | int, for_float: str, for_int: str) -> Val:
        name = for_float if _is_float(self.type) else for_int
        return Val(self.code, getattr(self.code.builder, name)(self.ir, self._other(other)))

    def __add__(self, other: Val | int) -> Val:
        return self._binary(other, "fadd", "add")

    def __sub__(self, other: Val | int) -> Val:
        return self._binary(other, "fsub", "sub")

    def __mul__(self, other: Val | int) -> Val:
        return self._binary(other, "fmul", "mul")

    def __truediv__(self, other: Val) -> Val:
        return Val(self.code, self.code.builder.fdiv(self.ir, other.ir))

    def __floordiv__(self, other: Val | int) -> Val:
        return Val(self.code, self.code.builder.udiv(self.ir, self._other(other)))

    def __mod__(self, other: Val | int) -> Val:
        return Val(self.code, self.code.builder.urem(self.ir, self._other(other)))

    def __and__(self, other: Val | int) -> Val:
        return Val(self.code, self.code.builder.and_(self.ir, self._other(other)))

    def __or__(self, other: Val | int) -> Val:
        return Val(self.code, self.code.builder.or_(self.ir, self._other(other)))

    def __xor__(self, other: Val | int) -> Val:
        return Val(self.code, self.code.builder.xor(self.ir, self._other(other)))

    def __lshift__(self, other: Val | int) -> Val:
        return Val(self.code, self.code.builder.shl(self.ir, self._other(other)))

    def __rshift__(self, other: Val | int) -> Val:
        """Shift right, filling with zeros."""
        return Val(self.code, self.code.builder.lshr(self.ir, self._other(other)))

    def _compare(self, operator: str, other: Val | int) -> Val:
        builder = self.code.builder
        compare = builder.fcmp_ordered if _is_float(self.type) else builder.icmp_signed
        return Val(self.code, compare(operator, self.ir, self._other(other)))

    def __lt__(self, other: Val | int) -> Val:
        return self._compare("<", other)

    def __gt__(self, other: Val | int) -> Val:
        return self._compare(">", other)

    def __ge__(self, other: Val | int) -> Val:
        return self._compare(">=", other)

    def below(self, other: Val | int) -> Val:
        """Compare as unsigned integers."""
        compare = self.code.builder.icmp_unsigned
        return Val(self.code, compare("<", self.ir, self._other(other)))

    def equals(self, other: Val | int) -> Val:
        """Return the i1 (or vector of i1) of equality."""
        return self._compare("==", other)

    def differs(self, other: Val | int) -> Val:
        """Return the i1 (or vector of i1) of inequality."""
        return self._compare("!=", other)

    def select(self, if_true: Val, if_false: Val) -> Val:
        """Choose by this i1 (lane by lane where it is a vector)."""
        return Val(self.code, self.code.builder.select(self.ir, if_true.ir, if_false.ir))

    def bitcast(self, to: IrType) -> Val:
        """Reinterpret the bits."""
        return Val(self.code, self.code.builder.bitcast(self.ir, to))

    def zext(self, to: IrType) -> Val:
        """Widen integers with zeros."""
        return Val(self.code, self.code.builder.zext(self.ir, to))

    def sext(self, to: IrType) -> Val:
        """Widen integers with their sign."""
        return Val(self.code, self.code.builder.sext(self.ir, to))

    def trunc(self, to: IrType) -> Val:
        """Keep the low bits of integers."""
        return Val(self.code, self.code.builder.trunc(self.ir, to))

    def to_float(self, to: IrType) -> Val:
        """Convert signed integers to floats, rounded to nearest even."""
        return Val(self.code, self.code.builder.sitofp(self.ir, to))

    def to_int(self, to: IrType) -> Val:
        """Convert integral floats, known to be in range, to signed integers."""
        return Val(self.code, self.code.builder.fptosi(self.ir, to))

    def fpext(self, to: IrType) -> Val:
        """Widen floats exactly."""
        return Val(self.code, self.code.builder.fpext(self.ir, to))

    def fptrunc(self, to: IrType) -> Val:
        """Narrow floats, rounded to nearest even."""
        return Val(self.code, self.code.builder.fptrunc(self.ir, to))

    def splat(self, lanes: int) -> Val:
        """Copy this scalar into every lane."""
        kind = vec(self.type, lanes)
        undefined = ir.Constant(kind, ir.Undefined)
        one = self.code.builder.insert_element(undefined, self.ir, ir.Constant(I32, 0))
        zeros = ir.Constant(vec(I32, lanes), [0] * lanes)
        return Val(self.code, self.code.builder.shuffle_vector(one, undefined, zeros))

    def shuffle(self, lanes: list[int], other: Val | None = None) -> Val:
        """Take the named lanes of this vector (and of `other`, numbered after this one's)."""
        second = ir.Constant(self.type, ir.Undefined) if other is None else other.ir
        mask = ir.Constant(vec(I32, len(lanes)), lanes)
        return Val(self.code, self.code.builder.shuffle_vector(self.ir, second, mask))

    def join(self, other: Val) -> Val:
        """Return the vector of this one's lanes and then `other`'s."""
        return self.shuffle(list(range(2 * self.type.count)), other)

    def rotate_left(self, bits: int) -> Val:
        """Rotate each integer by a constant."""
        amount = self.code.const(self.type, bits)
        return self.code.overloaded("llvm.fshl", self, self, amount)

    def lane(self, index: int) -> Val:
        """Extract one lane."""
        return Val(self.code, self.code.builder.extract_element(self.ir, ir.Constant(I32, index)))


Emit: TypeAlias = "Callable[..., Val | None]"


class Features(NamedTuple):
    """A CPU and features of LLVM for one function, in place of the target's."""

    cpu_name: str
    cpu_features: str


class Var:
    """A local variable (kept in a register where one is free)."""

    __slots__ = ("code", "slot")

    def __init__(self, code: Code, slot: Any) -> None:
        """Wrap a stack slot made by `Code.var`."""
        self.code = code
        self.slot = slot

    def get(self) -> Val:
        """Read the variable."""
        return Val(self.code, self.code.builder.load(self.slot))

    def set(self, value: Val) -> None:
        """Write the variable."""
        self.code.builder.store(value.ir, self.slot)


class Code:
    """An IR builder at a position; addresses are i64 values."""

    def __init__(self, builder: Any) -> None:
        """Emit at the current position of the llvmlite builder."""
        self.builder = builder

    def val(self, value: Any) -> Val:
        """Wrap an llvmlite value."""
        return Val(self, value)

    def const(self, kind: IrType, value: int | float) -> Val:
        """Return a constant; a float is taken as the nearest of the kind; all lanes are alike."""
        element = _element(kind)
        if isinstance(element, ir.FloatType):
            value = struct.unpack("<f", struct.pack("<f", value))[0]
        if isinstance(kind, ir.VectorType):
            return Val(self, ir.Constant(kind, [ir.Constant(element, value)] * kind.count))
        return Val(self, ir.Constant(kind, value))

    def bits(self, kind: IrType, pattern: int) -> Val:
        """Return the f32 or f64 constant (in all lanes) with this bit pattern."""
        wide = isinstance(_element(kind), ir.DoubleType)
        raw = pattern.to_bytes(8 if wide else 4, "little")
        return self.const(kind, struct.unpack("<d" if wide else "<f", raw)[0])

    def i64(self, value: int) -> Val:
        """Return an i64 constant."""
        return Val(self, ir.Constant(I64, value))

    def var(self, init: Val) -> Var:
        """Make a local variable that starts as `init`."""
        with self.builder.goto_entry_block():
            slot = self.builder.alloca(init.type)
        self.builder.store(init.ir, slot)
        return Var(self, slot)

    def buffer(self, kind: IrType) -> Val:
        """Reserve one `kind` on the stack and return its address."""
        with self.builder.goto_entry_block():
            slot = self.builder.alloca(kind)
        slot.align = 64
        return Val(self, self.builder.ptrtoint(slot, I64))

    def pointer(self, address: Val, kind: IrType) -> Any:
        """Return a byte address as an LLVM pointer to `kind`."""
        return self.builder.inttoptr(address.ir, kind.as_pointer())

    def load(self, kind: IrType, address: Val, align: int = 1) -> Val:
        """Read a value of `kind` at a byte address."""
        return Val(self, self.builder.load(self.pointer(address, kind), align=align))

    def store(self, value: Val, address: Val, align: int = 1) -> None:
        """Write a value at a byte address."""
        self.builder.store(value.ir, self.pointer(address, value.type), align=align)

    def word(self, address: Val, index: int) -> Val:
        """Read the i64 number `index` of an array at `address`."""
        return self.load(I64, address + 8 * index, align=8)

    def call(self, name: str, result: IrType, *args: Val) -> Val:
        """Call an LLVM intrinsic or an external function by name."""
        types = [a.type for a in args]
        module = self.builder.module
        function = module.globals.get(name)
        if function is None:
            function = ir.Function(module, ir.FunctionType(result, types), name)
        return Val(self, self.builder.call(function, [a.ir for a in args]))

    def overloaded(self, name: str, value: Val, *more: Val) -> Val:
        """Call an LLVM intrinsic that is named by its operand type, such as `llvm.rint`."""
        kind = value.type
        suffix = {F32: "f32", F64: "f64", F16: "f16"}.get(
            _element(kind)
        ) or f"i{_element(kind).width}"
        if isinstance(kind, ir.VectorType):
            suffix = f"v{kind.count}{suffix}"
        return self.call(f"{name}.{suffix}", kind, value, *more)

    def table(self, kind: IrType, values: Sequence[int]) -> Val:
        """Return a vector constant whose lanes differ."""
        return Val(self, ir.Constant(kind, list(values)))

    def subroutine(
        self, name: str, emit: Emit, *arguments: Val, features: Features | None = None
    ) -> Val:
        """Call a function of this module that takes and returns i64; write it at the first call.

        Args:
            name: its name, unique in the module.
            emit: called as `emit(code, *arguments)`; returns the i64 result, or None for 0.
            arguments: i64 values.
            features: instructions that it may use beyond those of the target.
        """
        module = self.builder.module
        function = module.globals.get(name)
        if function is None:
            kind = ir.FunctionType(I64, [I64] * len(arguments))
            function = ir.Function(module, kind, name)
            function.linkage = "internal"
            function.attributes.add("noinline")
            if features is not None:
                # llvmlite checks names against a list that has none of LLVM's string attributes.
                set.add(function.attributes, f'"target-cpu"="{features.cpu_name}"')
                set.add(function.attributes, f'"target-features"="{features.cpu_features}"')
            inner = Code(ir.IRBuilder(function.append_basic_block("entry")))
            result = emit(inner, *[inner.val(a) for a in function.args])
            inner.builder.ret(inner.i64(0).ir if result is None else result.ir)
        return Val(self, self.builder.call(function, [a.ir for a in arguments]))

    def prefetch(self, address: Val) -> None:
        """Ask for the cache line at an address that will be read soon; any address is allowed."""
        void, byte = ir.VoidType(), ir.IntType(8).as_pointer()
        function_type = ir.FunctionType(void, [byte, I32, I32, I32])
        module, name = self.builder.module, "llvm.prefetch.p0"
        function = module.globals.get(name) or ir.Function(module, function_type, name)
        hints = [ir.Constant(I32, n) for n in (0, 3, 1)]  # read, keep near, data
        self.builder.call(function, [self.pointer(address, I8), *hints])

    def copy(self, to: Val, source: Val, size: Val) -> None:
        """Copy `size` bytes between places that do not overlap."""
        byte = ir.IntType(8).as_pointer()
        function_type = ir.FunctionType(ir.VoidType(), [byte, byte, I64, I1])
        module, name = self.builder.module, "llvm.memcpy.p0.p0.i64"
        function = module.globals.get(name) or ir.Function(module, function_type, name)
        pointers = [self.pointer(to, I8), self.pointer(source, I8)]
        self.builder.call(function, [*pointers, size.ir, ir.Constant(I1, 0)])

    def negate(self, value: Val) -> Val:
        """Flip the sign bit of floats."""
        return Val(self, self.builder.fneg(value.ir))

    def rint(self, value: Val) -> Val:
        """Round to integral values, ties to even."""
        return self.overloaded("llvm.rint", value)

    def sqrt(self, value: Val) -> Val:
        """Return the correctly rounded square root."""
        return self.overloaded("llvm.sqrt", value)

    def fetch_add(self, address: Val, amount: Val) -> Val:
        """Add to an i64 in memory atomically and return what it held.

        Relaxed: work counters order nothing else.
        """
        pointer = self.pointer(address, I64)
        return Val(self, self.builder.atomic_rmw("add", pointer, amount.ir, "monotonic"))

    @contextmanager
    def loop(self, start: Val | int, stop: Val | int, step: int = 1) -> Iterator[Val]:
        """Run the body for i = start, start + step ... below stop."""
        first = start if isinstance(start, Val) else self.i64(start)
        last = stop if isinstance(stop, Val) else self.i64(stop)
        builder = self.builder
        head = builder.append_basic_block("loop.head")
        body = builder.append_basic_block("loop.body")
        tail = builder.append_basic_block("loop.end")
        before = builder.block
        builder.branch(head)
        builder.position_at_end(head)
        index = builder.phi(I64)
        index.add_incoming(first.ir, before)
        builder.cbranch(builder.icmp_signed("<", index, last.ir), body, tail)
        builder.position_at_end(body)
        yield Val(self, index)
        index.add_incoming(builder.add(index, ir.Constant(I64, step)), builder.block)
        builder.branch(head)
        builder.position_at_end(tail)

    @contextmanager
    def forever(self) -> Iterator[Any]:
        """Run the body until it calls `leave_if` with the token that this yields."""
        builder = self.builder
        body = builder.append_basic_block("repeat")
        tail = builder.append_basic_block("repeat.end")
        builder.branch(body)
        builder.position_at_end(body)
        yield tail
        builder.branch(body)
        builder.position_at_end(tail)

    def leave_if(self, condition: Val, token: Any) -> None:
        """Leave the `forever` that yielded the token if the i1 is set."""
        rest = self.builder.append_basic_block("stay")
        self.builder.cbranch(condition.ir, token, rest)
        self.builder.position_at_end(rest)

    @contextmanager
    def when(self, condition: Val) -> Iterator[None]:
        """Run the body if the i1 is set."""
        with self.builder.if_then(condition.ir):
            yield

    @contextmanager
    def choose(self, condition: Val) -> Iterator[tuple[Any, Any]]:
        """Yield two contexts: the first runs if the i1 is set, the second otherwise."""
        with self.builder.if_else(condition.ir) as branches:
            yield branches
