"""`windhover bench io`: how fast the disk gives a model, and what that makes of a token."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.credentials import Credentials, unlock_options
from appliance.cli.options import json_option, weights_argument
from appliance.cli.output import Progress, format_bytes, note, printable, write_json

if TYPE_CHECKING:
    from appliance.bench.disk_io import IoResults

_MEGABYTE = 1_000_000


@click.command()
@weights_argument
@click.option(
    "--threads", type=click.IntRange(1, 64), multiple=True, default=(1, 2, 4), show_default=True,
    help="Number of threads; repeatable.",
)  # fmt: skip
@click.option(
    "--size-mb", type=click.IntRange(1, 1 << 20), default=512, show_default=True,
    help="About how much of FILE is read for one number.",
)  # fmt: skip
@click.option("--rounds", type=click.IntRange(1, 1000), default=3, show_default=True)
@click.option(
    "--max-minutes", type=click.FloatRange(0, 1440, min_open=True), default=15, show_default=True,
    help="Do not start if it would take longer.",
)  # fmt: skip
@click.option(
    "--measured", type=click.Path(path_type=Path), multiple=True, metavar="FILE.json",
    help="Evidence of `bench memory` with the same model, to compare with; repeatable.",
)  # fmt: skip
@unlock_options(key="--unseal-key", secret="--passphrase-file")  # noqa: S106  (a name)
@json_option
def command(
    path: Path,
    threads: tuple[int, ...],
    size_mb: int,
    rounds: int,
    max_minutes: float,
    measured: tuple[Path, ...],
    credentials: Credentials,
    as_json: bool,
) -> None:
    """Measure how fast FILE is read, and predict the seconds of a token from that.

    Nothing is written. Seconds of computing are known only from evidence of mode `full`.
    """
    # Imported here: the benchmark takes numba, which `--help` and usage errors need not wait for.
    from appliance.bench.disk_io import IoPlan, measure_io  # noqa: PLC0415
    from appliance.bench.evidence import read_evidence  # noqa: PLC0415

    plan = IoPlan(tuple(dict.fromkeys(threads)), size_mb * _MEGABYTE, rounds, max_minutes * 60)

    def announce(disk: int, memory: int, seconds: float) -> None:
        note(
            f"reads {format_bytes(disk)} from the disk and writes nothing, takes up to "
            f"{format_bytes(memory)} of memory and about {seconds:.0f} s"
        )

    with credentials.open(path) as file:
        evidence = [read_evidence(each, file.model_digest.hex()) for each in measured]
        with Progress("measuring", unit=str) as progress:
            results = measure_io(file, plan, evidence, announce=announce, progress=progress)
    if as_json:
        write_json(results.as_json())
        return
    for line in _lines(results):
        click.echo(printable(line))


def _lines(results: IoResults) -> list[str]:
    """Return the report."""
    from statistics import median  # noqa: PLC0415 - with the benchmark

    from appliance.bench.table import table  # noqa: PLC0415 - as above

    def cells(rates: list[float]) -> tuple[str, ...]:
        return tuple(f"{each / 1e6:.0f}" for each in (median(rates), min(rates), max(rates)))

    reading = [
        (each.way, each.pattern, str(each.threads), *cells(each.bytes_per_s))
        for each in results.reading
    ]
    ciphers = [(each.kind, str(each.threads), *cells(each.bytes_per_s)) for each in results.ciphers]
    tokens = [
        (
            f"{each.mode}, {each.form}, {each.state}",
            f"{each.disk_s:.4f}",
            f"{sum(each.work_s.values()):.4f}",
            f"{each.least_s:.4f} .. {each.most_s:.4f}",
            ", ".join(f"{s:.4f}" for s in each.measured_s) or "-",
            ", ".join(f"{s / each.least_s:.2f}" for s in each.measured_s) or "-",
        )
        for each in results.predictions
    ]
    disk, needed = results.disk, results.needed
    computed = any("compute" in each.work_s for each in results.predictions)
    return [
        f"{results.name} on {disk.device or 'no disk'} ({disk.file_system or 'unknown'})",
        "",
        *table(("way", "reads", "threads", "MB/s", "least", "most"), reading),
        "",
        *table((results.bulk, "threads", "MB/s", "least", "most"), ciphers),
        "",
        f"a token needs {format_bytes(needed.mapped)}: layers {format_bytes(needed.layers)}, "
        f"head {format_bytes(needed.head)}"
        + ("" if computed else "; without the seconds of computing, which nothing told"),
        "",
        *table(("a token, s", "disk", "work", "predicted", "measured", "of least"), tokens),
    ]
