"""`windhover he-chain doctor`: which backends work on this machine, and why others do not."""

from __future__ import annotations

import click

from appliance.cli.options import json_option
from appliance.cli.output import write_json


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Say which homomorphic libraries can be used here, and what keeps the others from it."""
    from he_chain.doctor import diagnose  # noqa: PLC0415  (starts workers)

    found = diagnose()
    if as_json:
        write_json(found.to_json())
    else:
        click.echo(found.to_text())
