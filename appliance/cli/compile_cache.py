"""`windhover compile-cache`: compile the kernels once, for services that only read them."""

from __future__ import annotations

from pathlib import Path

import click

from appliance.cli.options import json_option
from appliance.cli.output import write_json
from appliance.service.kernel_cache import prepare


@click.command("compile-cache")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@json_option
def command(folder: Path, as_json: bool) -> None:
    """Compile every kernel for this CPU into DIR, and take its write bits away.

    The configuration names the folder as model.kernel_cache. What is there for this version already
    is kept. For production let another user own it than the one that the service runs as.
    """
    made = prepare(folder)
    if as_json:
        write_json({"folder": str(made.folder), "new": made.is_new, "files": made.num_files})
        return
    state = "compiled" if made.is_new else "there already"
    click.echo(f"{made.folder}: {made.num_files} files, {state}")
