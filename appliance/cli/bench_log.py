"""`windhover bench log`: what the log adds to an answer on this machine and this disk."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.bench.log import measure_log
from appliance.bench.table import table
from appliance.cli.options import json_option
from appliance.cli.output import Progress, printable, write_json
from appliance.log.layout import SEGMENT_ENTRIES

if TYPE_CHECKING:
    from appliance.bench.log import LogResults


@click.command()
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--pairs", type=click.IntRange(8, 100_000), default=200, show_default=True,
    help="Admissions and closings of each case.",
)  # fmt: skip
@click.option(
    "--entries", type=click.IntRange(0, 1_000_000_000), default=0, show_default=True,
    help="Append also to a log of so many simulated entries.",
)  # fmt: skip
@json_option
def command(folder: Path | None, pairs: int, entries: int, as_json: bool) -> None:
    """Measure appending to a log in DIR, by default the folder for temporary files.

    The disk that DIR is on decides most of it. An entry is signed and verified, and so is the
    checkpoint over it; both are durable before the time is taken.
    """
    where = Path(tempfile.gettempdir()) if folder is None else folder
    with Progress("measuring", unit=str) as progress:
        results = measure_log(where, pairs, -(-entries // SEGMENT_ENTRIES), progress)
    if as_json:
        write_json(results.as_json())
        return
    for line in _lines(results):
        click.echo(printable(line))


def _lines(results: LogResults) -> list[str]:
    """Return the report."""
    rows = [
        (times["name"], str(times["count"]), f"{times['median_ms']:.3f}", f"{times['p99_ms']:.3f}")
        for times in (found.as_json() for found in results.times)
    ]
    batches = ", ".join(
        f"{threads} threads {count}" for threads, count in results.entries_per_batch.items()
    )
    header = ("what", "count", "median ms", "99 % ms")
    return [results.folder, "", *table(header, [tuple(map(str, row)) for row in rows]), "",
            f"entries in a batch: {batches}"]  # fmt: skip
