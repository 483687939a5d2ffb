from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from crypto.sm3 import DIGEST_BYTES
from he_chain.errors import LevelError, PlanError, PrecisionError, RangeError, SecurityError
from he_chain.parameters import Parameters
from he_chain.planning.plan import memory_bytes, plan_refresh
from he_chain.polynomial.design import design_layer
from he_chain.polynomial.ranges import LayerRanges
from tests.he_chain.models import model_config
from tests.he_chain.polynomial_model import CHOSEN, make_layer

SMOL = Parameters(ring_degree=16384, num_levels=9, scale_bits=36, first_bits=57, special_bits=57)
SMOL_RANGES = LayerRanges(
    square1=(14.9, 480.0),
    square2=(16.4, 467.0),
    score=32.1,
    centred=10.7,
    ratios=((0.97, 34.4), (0.97, 6.8)),
    value=5.0,
    gate=8.7,
    up=14.0,
)
"""Of layer 10 of SmolLM2-135M on the calibration text behind its first token, a fifth wider."""


@pytest.fixture(scope="module")
def design():
    layer = make_layer()
    return design_layer(layer.config, CHOSEN, layer.ranges)


@pytest.fixture(scope="module")
def plan(design):
    return plan_refresh(design, CHOSEN, blind_bits=30)


def test_a_layer_of_64_channels_takes_at_most_8_refreshes(plan):
    assert len(plan.refreshes) <= 8
    assert plan.expected_bits > 12
    assert plan.security.startswith("128 bits, standard table")
    assert plan.depth > 30
    assert all(r.at_level >= 1 for r in plan.refreshes)
    assert plan.joint_distance < 2.0**-10


def test_a_layer_of_smollm2_takes_at_most_8_refreshes():
    config = model_config(
        hidden_size=576, num_heads=9, num_kv_heads=3, head_dim=64, intermediate_size=1536
    )
    design = design_layer(config, SMOL, SMOL_RANGES)
    plan = plan_refresh(design, SMOL, blind_bits=30, max_memory_bytes=2_000_000_000)
    assert len(plan.refreshes) <= 8
    assert design.grid.positions == 8


def test_keys_are_16_n_k_k_minus_1(plan):
    primes = len(CHOSEN.prime_bits)
    assert plan.rotation_key_bytes == 16 * 16384 * primes * (primes - 1)
    assert plan.key_bytes > (len(plan.rotations) + 1) * plan.rotation_key_bytes


def test_memory_is_limited(design):
    needed = memory_bytes(design, CHOSEN)
    plan_refresh(design, CHOSEN, blind_bits=30, max_memory_bytes=needed)
    with pytest.raises(PlanError, match=f"may need {needed} bytes of {needed - 1}"):
        plan_refresh(design, CHOSEN, blind_bits=30, max_memory_bytes=needed - 1)


def test_the_digest_names_what_runs(design, plan):
    again = plan_refresh(design, CHOSEN, blind_bits=30)
    assert again.encode() == plan.encode()
    assert len(plan.digest()) == DIGEST_BYTES
    assert plan_refresh(design, CHOSEN, blind_bits=29).digest() != plan.digest()
    assert plan_refresh(design, CHOSEN, blind_bits=30, name="b").digest() != plan.digest()
    # what is estimated makes no other plan
    assert replace(plan, seconds=1.0, memory_bytes=1).digest() == plan.digest()


def test_the_encoding_is_canonical_json(plan):
    document = json.loads(plan.encode())
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    assert text.encode() == plan.encode()
    assert json.loads(json.dumps(plan.as_json()))["digest"] == plan.digest().hex()


def test_a_plan_can_be_read(plan):
    text = str(plan)
    assert plan.digest().hex() in text
    assert f"refreshes   {len(plan.refreshes)} ciphertexts in {plan.rounds} rounds" in text
    for refreshed in plan.refreshes:
        assert f"refresh {refreshed.value} at level {refreshed.at_level}" in text
    for step in plan.steps:
        assert f"{step.name:<16} -> level {step.level}" in text


def test_a_chain_too_short_names_the_step(design):
    with pytest.raises(LevelError, match=r"\.root takes 4 levels of a chain of 3"):
        plan_refresh(design, replace(CHOSEN, num_levels=3), blind_bits=30)


def test_parameters_below_128_bits_are_refused(design):
    with pytest.raises(SecurityError, match="modulus of 471 bits"):
        plan_refresh(design, replace(CHOSEN, num_levels=9), blind_bits=30)


def test_another_ring_than_the_design_s_is_refused(design):
    with pytest.raises(PlanError, match="a design of 8192 slots, not 4096"):
        plan_refresh(design, replace(CHOSEN, ring_degree=8192), blind_bits=30)


@pytest.mark.parametrize("bits", [0, 31])
def test_blinding_has_its_limits(design, bits):
    with pytest.raises(PlanError, match=f"blinding of {bits} bits"):
        plan_refresh(design, CHOSEN, blind_bits=bits)


def test_too_much_precision_is_refused(design):
    with pytest.raises(PrecisionError, match=r"bits are expected of 30"):
        plan_refresh(design, CHOSEN, blind_bits=30, min_bits=30)


def test_models_with_normed_queries_are_refused():
    with pytest.raises(PlanError, match="norms of queries and keys"):
        design_layer(model_config("qwen3"), CHOSEN, make_layer().ranges)


def test_ranges_that_no_polynomial_covers_are_refused():
    layer = make_layer()
    wide = replace(layer.ranges, square1=(0.01, 1e4))
    with pytest.raises(PrecisionError, match="the norm on"):
        design_layer(layer.config, CHOSEN, wide)
    with pytest.raises(RangeError, match="a margin of 0 on measured ranges"):
        layer.ranges.widened(0)


def test_planning_needs_neither_numba_nor_a_library_of_ciphertexts():
    program = (
        "import sys, he_chain.planning.plan, he_chain.polynomial.layer\n"
        "assert not {'numba', 'tenseal', 'engine.kernels'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
