"""`windhover convert`: a GGUF file or a safetensors folder becomes one VQF file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.options import force_option, json_option
from appliance.cli.output import Progress, format_bytes, printable, write_json
from engine.convert.convert import convert

if TYPE_CHECKING:
    from engine.convert.hf_model import Quant


@click.command()
@click.argument("source", metavar="SRC", type=click.Path(path_type=Path))
@click.argument("target", metavar="OUT.vqf", type=click.Path(path_type=Path))
@click.option(
    "--quant",
    type=click.Choice(["keep", "q4", "q8"]),
    default="keep",
    show_default=True,
    help="What becomes of the matrices of a folder: kept as they are, 5.0 or 8.5 bits per weight. "
    "With q4 the embedding and the head get 8.5.",
)
@force_option
@json_option
def command(source: Path, target: Path, quant: Quant, force: bool, as_json: bool) -> None:
    """Convert SRC to the VQF file OUT.vqf.

    SRC is a GGUF file, which is imported without loss, or a folder with config.json,
    model.safetensors (or its index and shards) and tokenizer.json.

    Exit codes: 1 the source is damaged or contradicts itself, 2 it cannot be read or needs
    something that is not supported, 3 the disk is full.
    """
    start_s = time.monotonic()
    with Progress("converting") as progress:
        done = convert(source, target, quant=quant, force=force, progress=progress)
    seconds = time.monotonic() - start_s
    if as_json:
        write_json(
            {
                "file": str(target),
                "model_digest": done.model_digest.hex(),
                "architecture": done.architecture,
                "num_layers": done.num_layers,
                "num_parameters": done.num_parameters,
                "parameters_by_kind": done.kinds,
                "size_bytes": done.file_bytes,
                "seconds": round(seconds, 3),
            }
        )
        return
    click.echo(f"{printable(str(target))}: {done.architecture}, {done.num_layers} layers")
    click.echo(f"  model digest  {done.model_digest.hex()}")
    click.echo(f"  size          {format_bytes(done.file_bytes)}")
    click.echo(f"  parameters    {done.num_parameters:,}")
