"""`windhover bench load`: how fast signed and sealed weights are verified and decrypted here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.options import json_option
from appliance.cli.output import Progress, format_bytes, printable, write_json

if TYPE_CHECKING:
    from appliance.bench.load import LoadResults

_MEGABYTE = 1_000_000


@click.command()
@click.argument("path", metavar="[FILE]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--size-mb", type=click.IntRange(16, 65_536), default=256, show_default=True,
    help="Size of the random weights that are made when no FILE is given.",
)  # fmt: skip
@click.option(
    "--threads", type=click.IntRange(1, 256), multiple=True, default=(1, 2), show_default=True,
    help="Number of threads; repeatable.",
)  # fmt: skip
@click.option("--rounds", type=click.IntRange(1, 1000), default=3, show_default=True)
@json_option
def command(
    path: Path | None, size_mb: int, threads: tuple[int, ...], rounds: int, as_json: bool
) -> None:
    """Measure how fast weights are loaded with every byte verified.

    A copy of the plain VQF file FILE, or of random weights, is signed and sealed with keys of its
    own in the folder for temporary files, and loaded from the page cache: with the compiled kernels
    and, in turns, with the `cryptography` package alone.
    """
    # Imported here: the benchmark takes numba, which `--help` and usage errors need not wait for.
    from appliance.bench.load import measure_load  # noqa: PLC0415

    with Progress("measuring", unit=str) as progress:
        results = measure_load(path, size_mb * _MEGABYTE, threads, rounds, progress)
    if as_json:
        write_json(results.as_json())
        return
    for line in _lines(results):
        click.echo(printable(line))


def _lines(results: LoadResults) -> list[str]:
    """Return the report."""
    from statistics import median  # noqa: PLC0415 - as above

    from appliance.bench.table import table  # noqa: PLC0415

    rows = [
        (
            rate.form,
            str(rate.threads),
            f"{median(rate.portable) / 1e9:.3f}",
            f"{median(rate.kernels) / 1e9:.3f}",
            f"{max(rate.kernels) / 1e9:.3f}",
            f"{median(rate.ratios):.1f}",
        )
        for rate in results.rates
    ]
    header = ("form", "threads", "cryptography GB/s", "kernels GB/s", "best", "ratio")
    size = format_bytes(results.weights_bytes)
    return [f"{size} of weights, kernels {results.bulk}", "", *table(header, rows)]
