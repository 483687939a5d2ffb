"""`windhover compile-cache`: compile the kernels once, for services that only read them."""

from __future__ import annotations

from pathlib import Path

import click

from appliance.cli.options import json_option
from appliance.cli.output import write_json
from appliance.service.kernel_cache import prepare
from simd.settings import PATHS


@click.command("compile-cache")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--target", "paths", type=click.Choice(PATHS), multiple=True,
    help="Kernel path to compile for, also one that this CPU cannot run; repeatable. By default "
    "the one that it runs.",
)  # fmt: skip
@json_option
def command(folder: Path, paths: tuple[str, ...], as_json: bool) -> None:
    """Compile every kernel for this CPU into DIR, and take its write bits away.

    The configuration names the folder as model.kernel_cache. What is there for this version already
    is kept. For production let another user own it than the one that the service runs as.
    """
    made = [prepare(folder, path) for path in paths or (None,)]
    if as_json:
        values = [
            {"folder": str(each.folder), "new": each.is_new, "files": each.num_files}
            for each in made
        ]
        write_json(values[0] | {"targets": values})
        return
    for each in made:
        state = "compiled" if each.is_new else "there already"
        click.echo(f"{each.folder}: {each.num_files} files, {state}")
