"""A library that switches flushing of subnormal numbers on changes no bit (DESIGN-NUMERICS 2)."""

from __future__ import annotations

import platform
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from engine.kernels.machine import set_float_control
from engine.reference.linear import linear as define_linear
from engine.reference.weights import Weight
from engine.sampling.parameters import SamplingParameters
from engine.sampling.sampler import Sampler
from simd.build import inline
from simd.code import F32, I8, I32, I64, Code, Val
from tests.engine.kernels import pieces
from tests.engine.kernels.models import random_ids, random_weights, small_config
from tests.engine.kernels.running import assert_same, assert_same_bits, define, engine_of, run
from tests.engine.reference.support import SplitMix64

# isort: split
from llvmlite import ir
from numba import njit, types

IS_X86 = platform.machine() == "x86_64"
# Flush to zero, denormals are zero, round towards zero, and no traps; the ARM register has one bit
# for both ways of flushing.
BAD_CONTROL = 0x1F80 | 0x8040 | 0x6000 if IS_X86 else (1 << 24) | (3 << 22)


def _set_control(code: Code, value: Val) -> None:
    void = ir.VoidType()
    if IS_X86:
        slot = code.buffer(I32)
        code.store(value.trunc(I32), slot)
        arguments, name = [code.pointer(slot, I8)], "llvm.x86.sse.ldmxcsr"
    else:
        arguments, name = [value.ir], "llvm.aarch64.set.fpcr"
    module = code.builder.module
    function = module.globals.get(name) or ir.Function(
        module, ir.FunctionType(void, [a.type for a in arguments]), name
    )
    code.builder.call(function, arguments)


def _product(code: Code, a: Val, b: Val) -> Val:
    product = a.trunc(I32).bitcast(F32) * b.trunc(I32).bitcast(F32)
    return product.bitcast(I32).zext(I64)


def _good_control(code: Code) -> None:
    set_float_control(code)


_set_body, _product_body, _good_body = (
    inline(emit, arity) for emit, arity in ((_set_control, 1), (_product, 2), (_good_control, 0))
)


@njit(types.int64(types.int64))
def set_control(value: int) -> Any:
    return _set_body(value)


@njit(types.int64(types.int64, types.int64))
def product_bits(a: int, b: int) -> Any:
    return _product_body(a, b)


@njit(types.int64())
def good_control() -> Any:
    return _good_body()


def is_bad_here() -> bool:
    """Compute in the calling thread: a subnormal product, and a tie that goes up to even."""
    flushes = product_bits(0x00800000, 0x3F000000) != 0x00400000
    cuts_off = product_bits(0x3FC00000, 0x3F800001) != 0x3FC00002
    return bool(flushes and cuts_off)


def with_bad_control(work: Callable[[], Any]) -> Any:
    """Run in a thread whose control register is spoilt; threads that it starts inherit that."""
    results: list[Any] = []

    def spoilt() -> None:
        set_control(BAD_CONTROL)
        if is_bad_here():
            results.append(work())

    thread = threading.Thread(target=spoilt)
    thread.start()
    thread.join()
    assert results, "the control register was not spoilt, or the work failed"
    return results[0]


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Leave this thread as it should be, whatever a test did."""
    yield
    good_control()


def test_the_register_is_what_these_tests_say() -> None:
    assert not is_bad_here()
    assert with_bad_control(is_bad_here)

    def repaired() -> bool:
        good_control()
        return is_bad_here()

    assert not with_bad_control(repaired)


@pytest.mark.parametrize("num_threads", [1, 3])
def test_a_layer_of_subnormal_numbers(num_threads: int) -> None:
    source = SplitMix64(5)
    x = source.wide_floats((6, 64), -100, -98)
    d = np.full((16, 2), 2.0**-24, np.float16)
    weight = Weight("Q8_0", {"q": source.integers(-128, 128, (16, 64)).astype(np.int8), "d": d})
    blocks, _ = pieces.quantise(x)
    # The product of two scales is subnormal, and so are the f16 scales themselves.
    assert 0 < (blocks["a"] * np.float32(2.0**-24)).max() < np.float32(2.0**-126)
    expected = define_linear(x, weight.matrix())
    assert expected.all()
    found = with_bad_control(lambda: pieces.linear(weight, blocks, num_threads=num_threads))
    assert_same_bits(found, expected)


@pytest.mark.parametrize("num_threads", [1, 2, 8])
def test_a_model(num_threads: int) -> None:
    config = small_config("qwen3", num_layers=1)
    weights, ids = random_weights(config, ["Q4_1", "Q6_K", "F32"]), random_ids(config, 30)
    expected = define(config, weights, ids)

    def work() -> Any:
        with engine_of(config, weights, num_threads) as engine:
            return run(engine, ids, (25, 1, 4))

    assert_same(with_bad_control(work), expected)


def test_threads_that_were_there_before() -> None:
    config = small_config(num_layers=1)
    weights, ids = random_weights(config, ["Q8_0"]), random_ids(config, 30)
    expected = define(config, weights, ids)
    with engine_of(config, weights, 3) as engine:
        assert_same(run(engine, ids), expected)
        assert_same(with_bad_control(lambda: run(engine, ids)), expected)
        assert_same(run(engine, ids), expected)


def test_sampling() -> None:
    logits = SplitMix64(9).floats((500,), 8)
    parameters = SamplingParameters(
        seed=3, temperature_millionths=700_000, top_p_millionths=950_000, logprobs=3
    )

    def work() -> Any:
        sampler = Sampler(parameters, 500)
        return [repr(sampler.sample(logits, [1], [2], position)) for position in range(50)]

    assert with_bad_control(work) == work()
