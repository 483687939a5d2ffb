from __future__ import annotations

import pytest

from he_chain.calib import calibrate
from he_chain.errors import LevelError, PlanError, RangeError, SecurityError
from he_chain.parameters import Parameters
from he_chain.plaintext import PlainModel
from he_chain.planning.assist_plan import plan_assist
from tests.he_chain.assist_run import SMALL_RING, carry_on, prepare
from tests.he_chain.models import model_config, write_model

IDS = (3, 1, 4, 1)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    with PlainModel(write_model(tmp_path_factory.mktemp("plan"), num_layers=2)) as model:
        yield model


@pytest.fixture(scope="module")
def ranges(model):
    return calibrate(model, [5, 6, 7])


def test_a_run_counts_what_its_plan_counted(model, ranges, tmp_path):
    prepare(tmp_path, model, IDS, max_positions=len(IDS), ranges=ranges)
    records = carry_on(tmp_path, model).records
    for record in records:
        positions = record.position + 1
        plan = plan_assist(model.config, SMALL_RING, ranges, backend="mock", positions=positions)
        hop = plan.fin if record.layer is None else plan.layer if record.layer else plan.first
        assert record.kind == hop.kind
        assert record.exchanges == len(hop.exchanges)
        assert dict(record.counts) == {name: n for name, n in hop.counts.items() if n}
        assert {level for level, _ in record.levels} <= {0, 1}
    assert {record.kind for record in records} == {"lay", "fin"}


def test_bytes_and_keys_of_a_real_ring_are_predicted(ranges):
    plan = plan_assist(model_config(num_layers=2), Parameters(8192, 2), ranges)
    assert sum(one.sent for one in plan.layer.exchanges) == 6
    assert plan.layer.bytes_up == pytest.approx(788_000, rel=0.02)
    assert plan.layer.bytes_down == pytest.approx(920_000, rel=0.02)
    assert len(plan.rotations) < 64
    assert 0 < plan.layer.seconds < plan.first.seconds < 5


def test_a_chain_one_level_short_is_refused_by_the_operation_that_lacks_it(ranges):
    with pytest.raises(LevelError, match="qkv: a product takes one level"):
        plan_assist(model_config(), Parameters(8192, 0), ranges)
    assert plan_assist(model_config(), Parameters(8192, 1), ranges).layer.counts["ct_ct"] == 2


def test_what_would_go_wrong_is_refused(ranges):
    with pytest.raises(SecurityError):
        plan_assist(model_config(), Parameters(8192, 5), ranges)
    with pytest.raises(RangeError):
        plan_assist(model_config(), Parameters(8192, 1, 57), ranges)
    with pytest.raises(PlanError, match="of 1000000"):
        plan_assist(model_config(), Parameters(8192, 2), ranges, max_memory_bytes=1_000_000)
    with pytest.raises(PlanError):
        plan_assist(model_config(hidden_size=2048), Parameters(1024, 1), ranges, backend="mock")


def test_the_digest_is_of_what_a_run_stands_on(ranges):
    plan = plan_assist(model_config(), Parameters(8192, 2), ranges)
    assert plan.digest() == plan_assist(model_config(), Parameters(8192, 2), ranges).digest()
    others = [
        plan_assist(model_config(), Parameters(8192, 1), ranges),
        plan_assist(model_config(num_kv_heads=4), Parameters(8192, 2), ranges),
        plan_assist(model_config(), Parameters(8192, 2), ranges, backend="mock"),
    ]
    assert len({plan.digest(), *(other.digest() for other in others)}) == 4
    assert plan.as_json()["digest"] == plan.digest().hex()


def test_a_large_model_fits_the_memory_that_is_wanted(ranges):
    smollm2 = model_config(
        num_layers=30, hidden_size=576, num_heads=9, num_kv_heads=3, head_dim=64,
        intermediate_size=1536, vocab_size=49152,
    )  # fmt: skip
    plan = plan_assist(smollm2, Parameters(8192, 2), ranges, max_memory_bytes=2_000_000_000)
    assert plan.fin.exchanges[-1].sent == 14
    assert plan.layer.counts["ct_ct"] == 2
