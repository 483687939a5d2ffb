"""Options that several subcommands share, so that they look and behave the same everywhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from appliance.cli.output import note
from engine.errors import WeightsError

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

weights_argument: Decorator = click.argument(
    "path", metavar="FILE", type=click.Path(path_type=Path)
)

json_option: Decorator = click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON object on the last line of stdout; on failure it holds `error`.",
)

force_option: Decorator = click.option(
    "--force", is_flag=True, help="Replace the output file when it exists."
)

dev_option: Decorator = click.option(
    "--dev", is_flag=True, help="Accept weights that nobody signed. For development only."
)


def admit_unsigned(path: Path, *, dev: bool) -> None:
    """Decide whether weights without a signature may be used, and say so when they are.

    Args:
        path: The weight file, for the message.
        dev: Whether the person asked for development mode.

    Raises:
        WeightsError: Development mode was not asked for.
    """
    if not dev:
        message = f"{path}: these weights are not signed; only --dev accepts unsigned weights"
        raise WeightsError(message)
    note(f"--dev: {path} is not signed; nobody vouches for these weights")
