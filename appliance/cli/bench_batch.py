"""`windhover bench batch`: what several streams at once gain over one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.options import json_option
from appliance.cli.output import Progress, printable, write_json

if TYPE_CHECKING:
    from appliance.bench.batch import BatchResults


@click.command()
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--streams", type=click.IntRange(2, 64), default=8, show_default=True)
@click.option("--threads", type=click.IntRange(1, 256), default=2, show_default=True)
@click.option(
    "--prompt", "prompt_tokens", type=click.IntRange(1, 4096), default=64, show_default=True,
    help="Tokens of each prompt; they are not counted.",
)  # fmt: skip
@click.option(
    "--tokens", type=click.IntRange(2, 4096), default=64, show_default=True,
    help="Tokens of each answer.",
)  # fmt: skip
@click.option("--rounds", type=click.IntRange(1, 1000), default=9, show_default=True)
@json_option
def command(
    path: Path,
    streams: int,
    threads: int,
    prompt_tokens: int,
    tokens: int,
    rounds: int,
    as_json: bool,
) -> None:
    """Measure how many tokens a second one stream and several at once get of the VQF file FILE.

    Streams go through the scheduler with sampling and the trace, one and several by turns; the
    result is the median of the ratios within a round. Nobody gets an answer, so weights need no
    signature.
    """
    # Imported here: the benchmark takes numba, which `--help` and usage errors need not wait for.
    from appliance.bench.batch import BatchPlan, measure_batch  # noqa: PLC0415

    plan = BatchPlan(streams, prompt_tokens, tokens, threads, rounds)
    with Progress("measuring", unit=str) as progress:
        results = measure_batch(path, plan, progress)
    if as_json:
        write_json(results.as_json())
        return
    for line in _lines(results):
        click.echo(printable(line))


def _lines(results: BatchResults) -> list[str]:
    """Return the report."""
    from statistics import median  # noqa: PLC0415 - as above

    from appliance.bench.table import table  # noqa: PLC0415

    plan = results.plan
    rows = [
        (name, f"{median(rates):.1f}", f"{min(rates):.1f}", f"{max(rates):.1f}")
        for name, rates in (("1", results.alone), (str(plan.streams), results.together))
    ]
    header = ("streams", "tokens/s", "least", "most")
    ratios = results.ratios
    return [
        f"{results.weights['file']}, {plan.threads} thread{'s' * (plan.threads > 1)}, "
        f"{plan.rounds} round{'s' * (plan.rounds > 1)}, prompts of {plan.prompt_tokens} tokens",
        "",
        *table(header, rows),
        "",
        f"{plan.streams} streams get {results.ratio:.2f} times the tokens of one "
        f"({min(ratios):.2f} to {max(ratios):.2f})",
    ]
