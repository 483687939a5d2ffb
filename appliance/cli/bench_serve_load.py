"""`windhover bench serve-load`: whether a service stands many clients, some of them rude."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.errors import EXIT_BAD, EXIT_INCOMPLETE
from appliance.cli.options import json_option
from appliance.cli.output import Progress, note, printable, write_json
from appliance.cli.secrets import SOURCES
from crypto.secret import read_secret

if TYPE_CHECKING:
    from appliance.bench.pressure.results import Plan, Results

_PATH = click.Path(path_type=Path)


@click.command()
@click.argument("config", metavar="[CONFIG]", required=False, type=_PATH)
@click.option("--minutes", type=click.FloatRange(0.05, 1440), default=10, show_default=True)
@click.option("--clients", type=click.IntRange(1, 400), default=32, show_default=True)
@click.option("--seed", type=click.IntRange(0, (1 << 31) - 1), default=1, show_default=True,
              help="Of everything that clients do.")  # fmt: skip
@click.option(
    "--context-tokens", type=click.IntRange(0, 1 << 20), default=2048, show_default=True,
    help="Of the copy; the prefix cache is four times that, and has to be filled. 0: as in CONFIG.",
)  # fmt: skip
@click.option("--health-ms", type=click.FloatRange(1), default=100, show_default=True,
              help="What 99 of 100 probes of /health have to stay under.")  # fmt: skip
@click.option("--growth-mb", type=click.FloatRange(0), default=1, show_default=True,
              help="MB a minute that are no growth of memory.")  # fmt: skip
@click.option("--output", type=_PATH, metavar="DIR",
              help="Keep the copy of the site and serve-load.json there.")  # fmt: skip
@click.option("--url", help="Press a service that runs, in place of a copy of CONFIG.")
@click.option(
    "--key-file", "key_files", metavar=SOURCES, multiple=True,
    help="With --url: a key with every scope, then those of the clients; repeatable.",
)  # fmt: skip
@click.option("--pid", type=click.IntRange(1), help="With --url: its process, to see its memory.")
@click.option("--log", "log", type=_PATH, metavar="DIR", help="With --url: the folder of its log.")
@json_option
def command(
    config: Path | None,
    minutes: float,
    clients: int,
    seed: int,
    context_tokens: int,
    health_ms: float,
    growth_mb: float,
    output: Path | None,
    url: str | None,
    key_files: tuple[str, ...],
    pid: int | None,
    log: Path | None,
    as_json: bool,
) -> int:
    """Press a service, and check that nothing is lost, left open, different or growing.

    A copy of the site of CONFIG is started with a log and keys of its own; the site is not touched.
    Exit code 1 says that a check failed, 3 that one could not be made.
    """
    from appliance.bench.pressure.results import Plan  # noqa: PLC0415

    if (config is None) == (url is None):
        raise click.UsageError("give either CONFIG or --url")
    if url is None and (key_files or pid or log):
        raise click.UsageError("--key-file, --pid and --log go with --url")
    if url is not None and not key_files:
        raise click.UsageError("--url needs --key-file")
    plan = Plan(
        minutes=minutes, clients=clients, seed=seed, health_ms=health_ms, growth_mb=growth_mb
    )
    if config is None:
        results = _running(plan, str(url), key_files, pid, log)
    elif output is None:
        with tempfile.TemporaryDirectory() as folder:
            results = _copy(plan, config, Path(folder), context_tokens)
    else:
        results = _copy(plan, config, output, context_tokens)
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        evidence = json.dumps(results.as_json(), indent=1, allow_nan=False) + "\n"
        (output / "serve-load.json").write_text(evidence, encoding="ascii")
    return _report(results, as_json=as_json)


def _copy(plan: Plan, config: Path, folder: Path, context_tokens: int) -> Results:
    from appliance.bench.pressure.press import press_site  # noqa: PLC0415

    with Progress("pressing", unit=_seconds) as progress:
        return press_site(config, folder, plan, context_tokens=context_tokens, progress=progress)


def _running(
    plan: Plan, url: str, key_files: tuple[str, ...], pid: int | None, log: Path | None
) -> Results:
    from appliance.bench.pressure.press import Target, press_target  # noqa: PLC0415

    texts = []
    for source in key_files:
        with read_secret(source) as secret:
            texts.append(bytes(secret.value).decode("ascii"))
    operator, *others = texts
    target = Target(url, operator, tuple(others or texts), pid, log)
    with Progress("pressing", unit=_seconds) as progress:
        return press_target(target, plan, progress)


def _seconds(count: int) -> str:
    return f"{count} s"


def _report(results: Results, *, as_json: bool) -> int:
    """Print what was found; return the exit code."""
    from appliance.bench.pressure.results import State  # noqa: PLC0415

    exit_code = {State.FAILED: EXIT_BAD, State.UNCHECKED: EXIT_INCOMPLETE}.get(results.state, 0)
    if as_json:
        write_json(results.as_json() | {"exit_code": exit_code})
    else:
        for line in _lines(results):
            click.echo(printable(line))
    for fault in results.faults:
        note(fault)
    return exit_code


def _lines(results: Results) -> list[str]:
    """Return the report."""
    from appliance.bench.table import table  # noqa: PLC0415

    deeds = [
        (kind, str(sum(ends.values())), ", ".join(f"{n} {end}" for end, n in ends.items()))
        for kind, ends in results.kinds.items()
    ]
    figures = [
        (name.replace("_", " "), "-" if value is None else f"{value:.10g}")
        for name, value in results.figures.items()
    ]
    checks = [(each.name, each.state.value, each.found) for each in results.checks]
    return [
        *table(("deed", "count", "how it ended"), deeds), "",
        *table(("figure", "value"), figures), "",
        *table(("check", "verdict", "found"), checks),
    ]  # fmt: skip
