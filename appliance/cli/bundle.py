"""`windhover bundle`: hand on what an auditor needs, and no more."""

from __future__ import annotations

from pathlib import Path

import click

from appliance.bundle import MAX_BUNDLE_BYTES, decode_bundle
from appliance.cli.errors import about
from appliance.cli.inputs import read_public
from appliance.cli.options import force_option, json_option
from appliance.cli.output import write_json
from crypto.atomic import AtomicFile
from crypto.commitment import NAMES

_PATH = click.Path(path_type=Path)


@click.group()
def command() -> None:
    """Work with the bundle that leaves with an attested answer."""


@command.command()
@click.argument("source", metavar="BUNDLE", type=_PATH)
@click.argument("target", metavar="OUT", type=_PATH)
@click.option(
    "--keep", type=click.Choice(NAMES), multiple=True,
    help="What the copy still tells, with its salt; repeatable.",
)  # fmt: skip
@force_option
@json_option
def strip(source: Path, target: Path, keep: tuple[str, ...], force: bool, as_json: bool) -> None:
    """Copy BUNDLE to OUT without texts, ids, trace root and their salts, but for those of --keep.

    The signature, the log and the release verify as before. What was left out cannot be found by
    trying, however short it is. But prompt_ids tell the request, output_ids the answer, and the
    trace lets whoever holds the weights try prompts: keep all of them back together.
    """
    with about(source):
        bundle = decode_bundle(read_public(source, MAX_BUNDLE_BYTES))
    copy = bundle.strip(keep)
    with AtomicFile(target, force=force, mode=0o600) as file:
        file.create()
        file.write_at(0, copy.encode())
        file.commit()
    kept = sorted(copy.texts)
    if as_json:
        write_json({"bundle": str(target), "kept": kept})
        return
    click.echo(f"kept: {', '.join(kept) or 'the commitments alone'}")
