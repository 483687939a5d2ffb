"""`windhover he-chain plan`: what a run will take, or why it cannot be, before a key is made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from appliance.cli.he_chain_common import BACKENDS, parameter_options, parameters_of
from appliance.cli.options import json_option, weights_argument
from appliance.cli.output import format_bytes, write_json

if TYPE_CHECKING:
    from he_chain.planning.assist_plan import AssistPlan

_PATH: Final = click.Path(path_type=Path)


@click.command()
@weights_argument
@click.option(
    "--calibration", type=_PATH, required=True, metavar="FILE", help="As `calibrate` wrote it."
)
@click.option("--backend", type=click.Choice(BACKENDS), default="seal", show_default=True)
@parameter_options
@click.option(
    "--positions", type=click.IntRange(1, 4096), default=1, show_default=True,
    help="Tokens that the last one attends to.",
)  # fmt: skip
@click.option(
    "--memory", type=click.IntRange(1), default=2_000_000_000, show_default=True,
    help="Bytes that the evaluator may have.",
)  # fmt: skip
@json_option
def plan(
    path: Path,
    calibration: Path,
    backend: str,
    ring: int,
    levels: int,
    scale_bits: int,
    positions: int,
    memory: int,
    as_json: bool,
) -> None:
    """Plan protocol `assist` for the model in FILE.

    Refused are a chain that is too short, ranges that level 0 does not hold, parameters below 128
    bits, a model that does not fit the ring, and more memory than there may be.
    """
    from he_chain.calib import MAX_BYTES, decode_ranges  # noqa: PLC0415
    from he_chain.errors import PlanError  # noqa: PLC0415
    from he_chain.planning.assist_plan import plan_assist  # noqa: PLC0415  (takes NumPy)
    from he_chain.records.run_folder import read_whole  # noqa: PLC0415
    from he_chain.weights import ModelWeights  # noqa: PLC0415

    ranges = decode_ranges(read_whole(calibration, MAX_BYTES))
    with ModelWeights(path) as weights:
        if ranges.model_digest != weights.model_digest:
            raise PlanError(f"{calibration} is of another model")
        found = plan_assist(
            weights.config,
            parameters_of(ring, levels, scale_bits),
            ranges,
            backend=backend,
            positions=positions,
            max_memory_bytes=memory,
        )
        num_layers = weights.config.num_layers
    if as_json:
        write_json(found.as_json())
    else:
        click.echo(_text(found, num_layers))


def _text(plan: AssistPlan, num_layers: int) -> str:
    """Return a plan as lines."""
    token = plan.first.seconds + (num_layers - 1) * plan.layer.seconds + plan.fin.seconds
    lines = [
        f"plan       {plan.digest().hex()}",
        f"security   {plan.security}",
        f"rotations  {len(plan.rotations)}, keys of {format_bytes(plan.key_bytes)} in memory",
        f"memory     {format_bytes(plan.memory_bytes)} at most, evaluator",
        f"time       about {token:.1f} s of work of both sides for a token of {num_layers} layers",
    ]
    for name, hop in (("layer 0", plan.first), ("layer", plan.layer), ("logits", plan.fin)):
        counts = ", ".join(f"{n} {kind}" for kind, n in sorted(hop.counts.items()))
        lines.append(
            f"{name:10} {len(hop.exchanges)} exchanges, {format_bytes(hop.bytes_up)} up, "
            f"{format_bytes(hop.bytes_down)} down, about {hop.seconds:.2f} s"
        )
        lines.append(f"{'':10} {counts}")
        lines += [
            f"{'':12}{one.kind:9} {one.sent} up at level 0, {one.answered} down at level "
            f"{one.answer_level}"
            for one in hop.exchanges
        ]
    return "\n".join(lines)
