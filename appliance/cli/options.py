"""Options that several subcommands share, so that they look and behave the same everywhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

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


def with_options(command: Callable[..., Any], options: tuple[Decorator, ...]) -> Callable[..., Any]:
    """Return the command with options, so that `--help` shows them in their order."""
    for option in reversed(options):
        command = option(command)
    return command
