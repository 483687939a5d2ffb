"""`windhover he-chain calibrate` and `keys`: what exists before a run."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from appliance.cli.he_chain_common import (
    BACKENDS,
    create_holder,
    evaluator_option,
    holder_option,
    parameter_options,
    parameters_of,
)
from appliance.cli.options import json_option, weights_argument
from appliance.cli.output import format_bytes, note, write_json

_PATH: Final = click.Path(path_type=Path)
_MAX_TEXT_BYTES: Final = 1 << 20


@click.command()
@weights_argument
@click.option("--out", type=_PATH, required=True, metavar="FILE", help="Where the ranges go.")
@click.option("--text", type=_PATH, metavar="FILE", help="Public text; by default the project's.")
@click.option(
    "--margin", type=click.FloatRange(1, 1 << 20), default=4.0, show_default=True,
    help="What the measured magnitudes are multiplied with.",
)  # fmt: skip
@json_option
def calibrate(path: Path, out: Path, text: Path | None, margin: float, as_json: bool) -> None:
    """Measure the ranges of the model in FILE on public text.

    Ranges decide which values a run refuses, so they must not come from the prompt: what was
    measured is public then.
    """
    from he_chain.calib import calibrate as measure_ranges  # noqa: PLC0415  (takes NumPy)
    from he_chain.calib import public_text  # noqa: PLC0415
    from he_chain.plaintext import PlainModel  # noqa: PLC0415
    from he_chain.records.run_folder import write_whole  # noqa: PLC0415

    if text is None:
        words = public_text()
    else:
        with text.open("rb") as stream:
            words = stream.read(_MAX_TEXT_BYTES).decode("utf-8", "replace")
    with PlainModel(path) as model:
        ids = model.tokenizer().encode(words)
        ranges = measure_ranges(model, ids, margin=margin)
    write_whole(out, ranges.encode(), force=False)
    largest = {name: max(row) for name, row in ranges.limits.items()}
    if as_json:
        write_json({"calibration": ranges.digest().hex(), "margin": margin, "largest": largest})
        return
    click.echo(f"calibration {ranges.digest().hex()}")
    for name, limit in largest.items():
        click.echo(f"  {name:8} at most {limit:,.1f} in any layer")


@click.command()
@weights_argument
@holder_option
@evaluator_option
@click.option(
    "--calibration", type=_PATH, required=True, metavar="FILE", help="As `calibrate` wrote it."
)
@click.option("--backend", type=click.Choice(BACKENDS), default="seal", show_default=True)
@parameter_options
@json_option
def keys(
    path: Path,
    holder: Path,
    evaluator: Path,
    calibration: Path,
    backend: str,
    ring: int,
    levels: int,
    scale_bits: int,
    as_json: bool,
) -> None:
    """Make keys for the model in FILE: the secret one for the holder, no other for the evaluator.

    The plan comes first: what `plan` refuses gets no key. The mock encrypts nothing and is for
    rehearsals.
    """
    from he_chain.calib import MAX_BYTES, decode_ranges  # noqa: PLC0415
    from he_chain.errors import PlanError  # noqa: PLC0415
    from he_chain.planning.assist_plan import plan_assist  # noqa: PLC0415  (takes NumPy)
    from he_chain.records.run_folder import read_whole  # noqa: PLC0415
    from he_chain.roles.holder_model import write_holder_model  # noqa: PLC0415
    from he_chain.roles.setup import write_keys, write_ranges  # noqa: PLC0415
    from he_chain.weights import ModelWeights  # noqa: PLC0415

    parameters = parameters_of(ring, levels, scale_bits)
    ranges = decode_ranges(read_whole(calibration, MAX_BYTES))
    with ModelWeights(path) as weights:
        if ranges.model_digest != weights.model_digest:
            raise PlanError(f"{calibration} is of another model")
        plan = plan_assist(weights.config, parameters, ranges, backend=backend)
        keeper = create_holder(backend, parameters)
        size_bytes = write_keys(keeper, holder, evaluator, plan.rotations)
        write_ranges((holder, evaluator), ranges, ())
        write_holder_model(holder, weights)
    if as_json:
        write_json(
            {
                "holder": str(holder),
                "evaluator": str(evaluator),
                "plan": plan.digest().hex(),
                "security": plan.security,
                "rotations": len(plan.rotations),
                "evaluation_key_bytes": size_bytes,
            }
        )
        return
    note(f"the secret key is in {holder} and nowhere else")
    click.echo(f"plan             {plan.digest().hex()}")
    click.echo(f"security         {plan.security}")
    click.echo(f"evaluation keys  {len(plan.rotations)} rotations, {format_bytes(size_bytes)}")
