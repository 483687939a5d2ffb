"""`windhover synth`: random weights of a real shape, for measurements on files of a real size."""

from __future__ import annotations

import time
from pathlib import Path

import click

from appliance.cli.options import force_option, json_option
from appliance.cli.output import Progress, format_bytes, printable, write_json
from engine.synth.shapes import SHAPES, shape_named
from engine.synth.synthesize import MAX_SEED, synthesize
from engine.vqf.kinds import KINDS


@click.command()
@click.argument("target", metavar="OUT.vqf", type=click.Path(path_type=Path))
@click.option("--shape", "name", metavar="NAME", required=True, help=f"One of {', '.join(SHAPES)}.")
@click.option(
    "--layers",
    type=click.IntRange(min=1),
    help="How many layers; by default as many as the shape has.",
)
@click.option(
    "--kind",
    type=click.Choice([kind.lower() for kind in KINDS]),
    default="q4_1",
    show_default=True,
    help="The kind of all matrices.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, MAX_SEED),
    default=0,
    show_default=True,
    help="Which of the random models.",
)
@click.option(
    "--context",
    type=click.IntRange(min=1),
    help="Positions that the model says it can hold; by default those of the shape.",
)
@force_option
@json_option
def command(
    target: Path,
    name: str,
    layers: int | None,
    kind: str,
    seed: int,
    context: int | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write random weights of the shape NAME to the VQF file OUT.vqf.

    The same options give the same file on every machine. The model loads, is served and answers,
    in words that mean nothing.

    Exit codes: 2 the options make no sense, or OUT.vqf cannot be written, 3 the disk is full.
    """
    config = shape_named(name).config(num_layers=layers, context_tokens=context)
    start_s = time.monotonic()
    with Progress("drawing") as progress:
        done = synthesize(
            target, config, kind=kind.upper(), seed=seed, force=force, progress=progress
        )
    seconds = time.monotonic() - start_s
    if as_json:
        write_json(
            {
                "file": str(target),
                "model_digest": done.model_digest.hex(),
                "shape": name,
                "architecture": done.architecture,
                "num_layers": done.num_layers,
                "num_parameters": done.num_parameters,
                "parameters_by_kind": done.kinds,
                "seed": seed,
                "size_bytes": done.file_bytes,
                "seconds": round(seconds, 3),
            }
        )
        return
    click.echo(f"{printable(str(target))}: {name}, {done.num_layers} layers, seed {seed}")
    click.echo(f"  model digest  {done.model_digest.hex()}")
    click.echo(f"  size          {format_bytes(done.file_bytes)}")
    click.echo(f"  parameters    {done.num_parameters:,}")
