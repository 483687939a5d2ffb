"""The benchmark runs, says what it measured, and believes no wrong product."""

from __future__ import annotations

import json

import pytest

from he_chain.bench import products as bench_products
from he_chain.bench.bench import Bench, collect, run_bench
from he_chain.bench.operations import OperationTime, time_operations
from he_chain.bench.products import BASELINE, ProductTime, time_products
from he_chain.errors import PrecisionError
from he_chain.parameters import Parameters

SMALL = Parameters(ring_degree=4096, num_levels=1, scale_bits=34, first_bits=39, special_bits=36)


def test_it_measures_everything_once() -> None:
    bench = collect(run_bench([SMALL], sizes=(6,), rounds=1))
    operations = {(o.level, o.operation) for o in bench.operations}
    everywhere = {"encrypt", "decrypt", "dump", "load", "encode", "add", "rotate"}
    wanted = {(0, name) for name in everywhere}
    wanted |= {(1, name) for name in everywhere | {"mul_plain", "mul", "rescale"}}
    assert operations == wanted
    assert all(o.cpu_s > 0 and o.ring_degree == 4096 for o in bench.operations)
    assert [(p.way, p.level) for p in bench.products] == [
        (BASELINE, 1),
        ("steps", 1),
        ("copies", 1),
        ("steps, encoded before", 1),
    ]
    assert bench.products[0].ratio == 1
    assert all(0 < p.error < 1e-3 for p in bench.products)
    text = bench.as_markdown()
    for product in bench.products:
        assert f"| 4096 | 6 | {product.way} | 1 | {product.cpu_s:.3f} |" in text
    again = json.loads(json.dumps(bench.as_json()))
    assert again["products"][1]["way"] == "steps"
    assert again["reaches_bar"] == bench.reaches_bar


def test_levels_can_be_chosen() -> None:
    assert {o.level for o in time_operations(SMALL, rounds=1, levels=(0,))} == {0}


def test_a_wrong_product_is_no_result(monkeypatch) -> None:
    class Wrong(bench_products.Product):
        def __init__(self, shape, matrix) -> None:
            super().__init__(shape, matrix + 0.1)

    monkeypatch.setattr(bench_products, "Product", Wrong)
    with pytest.raises(PrecisionError, match="is wrong by"):
        list(time_products(SMALL, (6,), rounds=1))


def with_ratios(*ratios: float) -> Bench:
    products = [ProductTime(8192, 64, "copies", 1, 0.1, ratio, 1e-7) for ratio in ratios]
    slow = ProductTime(8192, 64, "steps", 1, 0.1, 3.0, 1e-7)
    return Bench("machine", (OperationTime(8192, 1, "add", 1e-3),), (slow, *products))


@pytest.mark.parametrize(
    ("ratios", "reached"), [((10.0, 50.0), True), ((50.0, 9.99), False), ((), False)]
)
def test_the_bar_is_for_the_slowest(ratios, reached) -> None:
    bench = with_ratios(*ratios)
    assert bench.reaches_bar is reached
    assert f"`{BASELINE}`: {'yes' if reached else 'no'}" in bench.as_markdown()
