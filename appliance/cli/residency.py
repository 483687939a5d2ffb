"""Options that say how the weights of a model are kept in memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from appliance.cli.options import with_options
from engine.memory.residency import DEFAULT_WINDOW_BYTES, MODES, Mode, Residency

_MIB = 1 << 20

_OPTIONS = (
    click.option(
        "--residency", "mode", type=click.Choice(MODES), default="full", show_default=True,
        help="Whether all weights are in memory, or read for each step: plain ones through the "
        "memory map (stream), or any, verified each time (verified-stream).",
    ),
    click.option(
        "--window-mb", type=click.IntRange(1, 1 << 14), default=DEFAULT_WINDOW_BYTES // _MIB,
        show_default=True, help="MiB of streamed weights that are there at a time.",
    ),
    click.option(
        "--keep-layers", type=click.IntRange(min=1), default=1, show_default=True,
        help="Layers of streamed weights that stay, the one that is computed included.",
    ),
    click.option(
        "--drop-page-cache", is_flag=True,
        help="Let what was read of streamed weights leave the system's cache, too.",
    ),
)  # fmt: skip


def residency_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options; the command gets them as `residency`."""

    @wraps(function)
    def command(
        *,
        mode: Mode,
        window_mb: int,
        keep_layers: int,
        drop_page_cache: bool,
        **others: object,
    ) -> object:
        residency = Residency(mode, window_mb * _MIB, keep_layers, drop_page_cache)
        return function(residency=residency, **others)

    return with_options(command, _OPTIONS)
