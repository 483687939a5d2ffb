from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from he_chain.backends.lattigo_parameters import BootParameters
from he_chain.boot.layer import LayerMaps, boot_hop, lay_hop, log_slots_of, period_of
from he_chain.boot.plan import claims, plan, security
from he_chain.boot.ranges import BootRanges, calibrate
from he_chain.errors import LevelError, PlanError, RangeError
from he_chain.plaintext import PlainModel
from tests.he_chain.lattigo_values import run_program
from tests.he_chain.models import write_model

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN = 300
PUBLIC = range(40)


@pytest.fixture(scope="module", params=["llama", "qwen2", "qwen3"])
def model(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PlainModel]:
    folder = tmp_path_factory.mktemp("model")
    with PlainModel(write_model(folder, request.param, num_layers=2)) as opened:
        yield opened


@pytest.fixture(scope="module")
def ranges(model: PlainModel) -> BootRanges:
    return calibrate(model, PUBLIC, 2.0)


def parameters_of(model: PlainModel) -> BootParameters:
    return BootParameters(10, 9, log_slots=log_slots_of(model.config))


@pytest.mark.parametrize(
    ("width", "period"), [(1, 1), (4, 4), (5, 16), (64, 64), (65, 256), (160, 256), (576, 1024)]
)
def test_periods_are_powers_of_four(width: int, period: int) -> None:
    assert period_of(width) == period


def test_programs_compute_the_layers_of_the_model(
    model: PlainModel, ranges: BootRanges, tmp_path: Path
) -> None:
    exact = model.exact_forward([TOKEN]).residuals[:, 0]
    found = plan(model, ranges, parameters_of(model), 2)
    carried = np.tile(exact[0] / ranges.residual, 512 // 64)
    approximated = exact[0]
    for number, hop in enumerate(found.hops):
        path = tmp_path / f"{number}"
        hop.program.write(path, hop.output)
        carried = run_program(path, carried)
        if hop.kind == "lay":
            maps = LayerMaps.of(model.layer(hop.layer), model.config, ranges.layers[hop.layer])
            approximated = maps.approximate(approximated)
            x = carried * ranges.residual
            assert np.abs(x[:64] - approximated).max() < 1e-12
            assert np.abs(x.reshape(-1, 64) - x[:64]).max() < 1e-12
            assert np.abs(x[:64] - exact[hop.layer + 1]).max() < 2.0**-12 * np.abs(exact).max()
    assert [hop.kind for hop in found.hops] == ["boot", "lay", "boot", "lay"]


def test_levels_fall_to_one_and_rise_by_bootstraps_only(
    model: PlainModel, ranges: BootRanges
) -> None:
    found = plan(model, ranges, parameters_of(model), 2)
    levels = [[level for _, _, level in hop.program.levels()] for hop in found.hops]
    assert levels[0] == [9, 8, 7, 3, 2, 1, 1, 9]
    assert levels[1] == [9, 8, 7, 3, 2, 9, 8, 8, 3, 2, 1, 1]
    assert levels[2] == [1, 9, 8, 7, 3, 2, 1, 1, 9]
    assert found.num_bootstraps == 2 + 3
    assert found.needed_bytes > 3 * 30 * found.parameters.boot_key_bytes


def test_a_plan_names_its_steps_ranges_and_parameters(
    model: PlainModel, ranges: BootRanges
) -> None:
    parameters = parameters_of(model)
    digest = plan(model, ranges, parameters).digest()
    assert digest == plan(model, ranges, parameters).digest()
    others = [
        plan(model, ranges, parameters, 2),
        plan(model, replace(ranges, residual=ranges.residual + 1), parameters),
        plan(model, ranges, replace(parameters, scale_bits=44)),
    ]
    assert len({digest, *(other.digest() for other in others)}) == 4


def test_a_plan_one_level_short_is_refused(model: PlainModel, ranges: BootRanges) -> None:
    parameters = parameters_of(model)
    with pytest.raises(PlanError, match="9 levels"):
        plan(model, ranges, replace(parameters, num_levels=10 - 2))
    maps = LayerMaps.of(model.layer(0), model.config, ranges.layers[0])
    with pytest.raises(LevelError):
        boot_hop(parameters, maps, ranges.residual, 0)
    with pytest.raises(LevelError, match="boot-ffn"):
        lay_hop(parameters, maps, ranges.residual, 7)


def test_plans_that_do_not_fit_the_model_are_refused(model: PlainModel, ranges: BootRanges) -> None:
    parameters = parameters_of(model)
    for layers in (0, 3):
        with pytest.raises(PlanError, match="2 layers"):
            plan(model, ranges, parameters, layers)
    with pytest.raises(PlanError, match="must refresh 256 values"):
        plan(model, ranges, replace(parameters, log_slots=6))


def test_ranges_come_with_a_margin_and_refuse_outliers(
    model: PlainModel, ranges: BootRanges
) -> None:
    narrow = calibrate(model, PUBLIC, 1.0)
    assert ranges.residual == 2 * narrow.residual
    assert ranges.layers[1].gate == 2 * narrow.layers[1].gate
    assert ranges.layers[0].ffn_low == narrow.layers[0].ffn_low / 2
    assert ranges.digest() != narrow.digest()
    ranges.check(np.array([ranges.residual, -ranges.residual]))
    for outlier in (1.001 * ranges.residual, -2 * ranges.residual, np.nan, np.inf):
        with pytest.raises(RangeError) as caught:
            ranges.check(np.array([0.0, outlier]))
        assert not any(character.isdigit() for character in str(caught.value))


@pytest.mark.parametrize(("ids", "margin"), [([], 2.0), ([1], 0.5), ([1], float("nan"))])
def test_a_calibration_without_tokens_or_margin_is_refused(
    model: PlainModel, ids: list[int], margin: float
) -> None:
    with pytest.raises(RangeError):
        calibrate(model, ids, margin)


def test_claims_say_what_the_secret_is() -> None:
    real = BootParameters(16, 9)
    assert security(real).startswith("128 bits, library claim")
    assert "INSECURE" in security(BootParameters(12, 9))
    assert any("dense (weight 32768 of 65536)" in claim for claim in claims(real))
    sparse = claims(replace(real, dense_secret=False))
    assert any("sparse (weight 192 of 65536): a library claim" in claim for claim in sparse)
    assert any("Position 0 only" in claim for claim in sparse)
