"""`windhover bench serve`: what a running service delivers, alone or beside a rival."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from appliance.cli.options import json_option
from appliance.cli.output import Progress, printable, write_json
from appliance.cli.secrets import SOURCES
from crypto.secret import read_secret

if TYPE_CHECKING:
    from appliance.bench.served import ServedResults


@click.command()
@click.option("--url", default="http://127.0.0.1:8080", show_default=True)
@click.option(
    "--key-file", metavar=SOURCES, required=True, help="An API key; scopes generate, metrics."
)
@click.option("--model", required=True, help="The name under which the service has the model.")
@click.option("--rival-url", help="A llama-server with the same weights and as many threads.")
@click.option("--streams", type=click.IntRange(2, 64), default=8, show_default=True)
@click.option("--tokens", type=click.IntRange(2, 4096), default=128, show_default=True)
@click.option("--rounds", type=click.IntRange(1, 1000), default=5, show_default=True)
@json_option
def command(
    url: str,
    key_file: str,
    model: str,
    rival_url: str | None,
    streams: int,
    tokens: int,
    rounds: int,
    as_json: bool,
) -> None:
    """Measure tokens per second of one stream and of several, over HTTP, from request to [DONE].

    With --rival-url a second server is asked the same by turns; ratios are medians within rounds.
    """
    from appliance.bench.served import ServedPlan, Target, measure_served  # noqa: PLC0415

    with read_secret(key_file) as secret:
        key = bytes(secret.value).decode("ascii")
    rival = None if rival_url is None else Target(rival_url, model)
    plan = ServedPlan(streams, tokens, rounds)
    with Progress("measuring", unit=str) as progress:
        results = measure_served(Target(url, model, key), rival, plan, progress)
    if as_json:
        write_json(results.as_json())
        return
    for line in _lines(results):
        click.echo(printable(line))


def _lines(results: ServedResults) -> list[str]:
    """Return the report."""
    from statistics import median  # noqa: PLC0415

    from appliance.bench.table import table  # noqa: PLC0415

    rows = [
        (f"{name}, {streams}", f"{median(rates):.1f}", f"{min(rates):.1f}", f"{max(rates):.1f}")
        for name, by_streams in results.rates.items()
        for streams, rates in by_streams.items()
    ]
    plan = results.plan
    lines = [
        *table(("streams", "tokens/s", "least", "most"), rows),
        "",
        f"{plan.streams} streams get {results.gain:.2f} times the tokens of one",
        f"outside of the engine: {100 * median(results.added):.1f} % of a lone stream's time",
    ]
    for streams in (1, plan.streams):
        over = results.over_rival(streams)
        if over is not None:
            lines.append(f"{streams} beside the rival: {over:.2f} times its rate")
    return lines
