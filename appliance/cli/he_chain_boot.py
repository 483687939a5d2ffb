"""`windhover he-chain boot`: layers at position 0, with bootstraps and no exchange in between."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from appliance.cli.he_chain_common import (
    evaluator_option,
    gate_option,
    open_run,
    run_option,
    show_hop,
)
from appliance.cli.he_chain_run import this_command
from appliance.cli.options import json_option, weights_argument
from appliance.cli.output import format_bytes, note
from engine.errors import ConfigError

if TYPE_CHECKING:
    from he_chain.backends.lattigo_parameters import BootParameters
    from he_chain.boot.plan import BootPlan
    from he_chain.boot.ranges import BootRanges
    from he_chain.plaintext import PlainModel

_PATH: Final = click.Path(path_type=Path)
_CALIBRATED_TOKENS: Final = 40


@click.command()
@weights_argument
@click.option("--holder", type=_PATH, metavar="DIR", help="Make keys there, or begin with them.")
@evaluator_option
@run_option
@click.option("--token", type=click.IntRange(0), help="What a new run begins with.")
@click.option("--layers", type=click.IntRange(1, 1000), default=1, show_default=True)
@click.option(
    "--log-ring", type=click.IntRange(10, 17), default=16, show_default=True,
    help="log2 of the ring degree of new keys; below 16 there is no security.",
)  # fmt: skip
@gate_option
@json_option
def boot(
    path: Path,
    holder: Path | None,
    evaluator: Path,
    run_folder: Path,
    token: int | None,
    layers: int,
    log_ring: int,
    gate_bits: int,
    as_json: bool,
) -> int:
    """Run the first layers of the model in FILE on one token, bootstrapped by Lattigo.

    With --holder keys are made where there are none, the token is encrypted where nothing has
    begun, and the evaluator is started as a process that is not told the holder's folder. Without
    it this is the evaluator, and a run that was cut short goes on.
    """
    from he_chain.plaintext import PlainModel  # noqa: PLC0415  (takes NumPy)

    with PlainModel(path) as model:
        if holder is None:
            return _evaluate(model, evaluator, run_folder, as_json=as_json)
        _begin(model, holder, evaluator, run_folder, token, layers, log_ring, gate_bits)
    words = ["boot", str(path), "--evaluator", str(evaluator), "--run", str(run_folder)]
    words += ["--json"] * as_json
    return subprocess.run([*this_command(), *words], check=False).returncode  # noqa: S603  (ours)


def boot_ranges(model: PlainModel) -> BootRanges:
    """Return the ranges of a model by tokens of the public text."""
    from he_chain.boot.ranges import calibrate  # noqa: PLC0415  (takes NumPy)
    from he_chain.calib import public_ids  # noqa: PLC0415

    return calibrate(model, public_ids(model)[:_CALIBRATED_TOKENS])


def boot_plan(model: PlainModel, parameters: BootParameters, num_layers: int) -> BootPlan:
    """Return the plan of a run; PlanError, LevelError, RangeError where there can be none."""
    from he_chain.boot.plan import plan  # noqa: PLC0415  (takes NumPy)

    return plan(model, boot_ranges(model), parameters, num_layers)


def _begin(
    model: PlainModel,
    holder: Path,
    evaluator: Path,
    run_folder: Path,
    token: int | None,
    layers: int,
    log_ring: int,
    gate_bits: int,
) -> None:
    """Make keys and begin a run, as far as there are none: the key holder's part."""
    import numpy as np  # noqa: PLC0415

    from he_chain.backends.lattigo import read_parameters  # noqa: PLC0415
    from he_chain.backends.lattigo_parameters import BootParameters  # noqa: PLC0415
    from he_chain.boot.layer import LEVELS, log_slots_of  # noqa: PLC0415
    from he_chain.boot.run import begin, write_keys  # noqa: PLC0415
    from he_chain.roles.session import new_session  # noqa: PLC0415

    if (run_folder / "begin.rec").exists():
        return
    if token is None or token >= model.config.vocab_size:
        raise ConfigError("--token takes a token of the model")
    if (holder / "parameters.json").exists():
        plan = boot_plan(model, read_parameters(holder)[0], layers)
    else:
        parameters = BootParameters(log_ring, LEVELS, log_slots=log_slots_of(model.config))
        plan = boot_plan(model, parameters, layers)
        note(f"keys of {plan.num_bootstraps} bootstraps, {format_bytes(plan.needed_bytes)} memory")
        note(f"evaluation keys: {format_bytes(write_keys(plan, holder, evaluator))}")
    new_session([token], max_positions=1, num_layers=layers).save(holder)
    begin(plan, holder, run_folder, model.embedding()[token].astype(np.float64), gate_bits)


def _evaluate(model: PlainModel, evaluator: Path, run_folder: Path, *, as_json: bool) -> int:
    """Run the hops that are left: the evaluator's part."""
    from he_chain.backends.lattigo import read_parameters  # noqa: PLC0415  (takes NumPy)
    from he_chain.boot.run import evaluate  # noqa: PLC0415

    begin = open_run(run_folder).begin
    plan = boot_plan(model, read_parameters(evaluator)[0], begin.num_layers)
    evaluate(
        plan,
        evaluator,
        run_folder,
        progress=lambda hop, record: show_hop(record, as_json=as_json),
    )
    return 0
