"""`windhover bench engine`: how fast the engine is here, and llama.cpp beside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.options import force_option, json_option
from appliance.cli.output import Progress, note, write_json
from crypto.atomic import AtomicFile
from engine.errors import ConfigError

if TYPE_CHECKING:
    from appliance.bench.cases import Case

_JSON, _TABLE, _PLOT = "bench-engine.json", "bench-engine.md", "bench-engine.svg"


class _Numbers(click.ParamType[tuple[int, ...]]):
    """Numbers with commas between them, each at least `least`."""

    name = "N,N,..."

    def __init__(self, least: int, most: int = 1 << 20) -> None:
        """Set the range."""
        self._range = range(least, most + 1)

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Parse the list; repeated numbers count once."""
        if isinstance(value, tuple):
            return value
        words = str(value).split(",")
        digits = all(word.isascii() and word.isdigit() and len(word) < 8 for word in words)
        numbers = tuple(dict.fromkeys(map(int, words))) if digits else ()
        if not numbers or not all(number in self._range for number in numbers):
            low, high = self._range[0], self._range[-1]
            self.fail(f"{value!r} is not a list of numbers from {low} to {high}", param, ctx)
        return numbers


@click.command()
@click.argument("path", metavar="[FILE]", required=False, type=click.Path(path_type=Path))
@click.option("--gguf", type=click.Path(path_type=Path), help="The same weights for llama-bench.")
@click.option(
    "--llama-bench", type=click.Path(path_type=Path), help="llama.cpp's benchmark program."
)
@click.option("--threads", type=_Numbers(1, 256), default="1,2", show_default=True)
@click.option("--rounds", type=click.IntRange(1, 1000), default=3, show_default=True)
@click.option("--prefill", type=_Numbers(1), default="128,512,2048", show_default=True)
@click.option("--depths", type=_Numbers(0), default="0,512,2048", show_default=True)
@click.option(
    "--decode", type=click.IntRange(1, 100_000), default=64, show_default=True,
    help="Decode steps of one measurement.",
)  # fmt: skip
@click.option(
    "--output", type=click.Path(path_type=Path), help="Folder for the evidence, table and plot."
)
@click.option(
    "--shape", type=(click.Choice(["8b-layers"]), click.IntRange(2, 32)), metavar="8b-layers N",
    help="Instead of FILE: what the trace costs on an 8B shape, measured on N layers of it.",
)  # fmt: skip
@click.option(
    "--kind", type=click.Choice(["Q4_0", "Q4_1", "Q8_0"]), default="Q4_0", show_default=True,
    help="Kind of the matrices of --shape.",
)  # fmt: skip
@force_option
@json_option
def command(
    path: Path | None,
    gguf: Path | None,
    llama_bench: Path | None,
    threads: tuple[int, ...],
    rounds: int,
    prefill: tuple[int, ...],
    depths: tuple[int, ...],
    decode: int,
    output: Path | None,
    shape: tuple[str, int] | None,
    kind: str,
    force: bool,
    as_json: bool,
) -> None:
    """Measure prefill, decode, memory and start of the VQF file FILE.

    With --gguf and --llama-bench the same cases are measured there in turns, and the result is the
    median of the ratios within a round. Nobody gets an answer, so weights need no signature.
    """
    if (path is None) == (shape is None):
        raise click.UsageError("give either FILE or --shape")
    if (gguf is None) != (llama_bench is None):
        raise click.UsageError("--gguf and --llama-bench belong together")
    if gguf is not None and shape is not None:
        raise click.UsageError("--shape has no GGUF file to compare with")
    # Imported here: the benchmark takes NumPy, which `--help` and usage errors need not wait for.
    from appliance.bench.cases import plan  # noqa: PLC0415

    cases = plan(prefill, depths, decode)
    if output is not None:
        _prepare(output, force=force, with_plot=path is not None)
    if path is not None:
        made = _measure_file(
            path, gguf, llama_bench, cases, threads, rounds, plot=output is not None
        )
    else:
        made = _measure_shape(shape[1] if shape else 0, kind, cases, threads, rounds)
    if output is not None:
        for name, data in made.items():
            _write(output / name, data, force=force)
    click.echo(made[_TABLE], nl=False) if not as_json else write_json(json.loads(made[_JSON]))


def _measure_file(
    path: Path,
    gguf: Path | None,
    llama_bench: Path | None,
    cases: Sequence[Case],
    threads: Sequence[int],
    rounds: int,
    *,
    plot: bool,
) -> dict[str, bytes]:
    """Return the contents of the result files."""
    from appliance.bench import engine, report  # noqa: PLC0415 - as above
    from appliance.bench.llama_bench import LlamaBench  # noqa: PLC0415

    rival = None
    if gguf is not None and llama_bench is not None:
        engine.check_same_weights(path, gguf)
        rival = LlamaBench(llama_bench, gguf)
    with Progress("measuring", unit=str) as progress:
        results = engine.measure(path, engine.Plan(cases, threads, rounds, rival=rival), progress)
    made = {_JSON: _as_bytes(results.as_json()), _TABLE: report.engine_report(results).encode()}
    if plot and find_spec("matplotlib"):
        from appliance.bench.plot import draw  # noqa: PLC0415 - an extra, wanted only here

        made[_PLOT] = draw(results)
    return made


def _measure_shape(
    num_layers: int, kind: str, cases: Sequence[Case], threads: Sequence[int], rounds: int
) -> dict[str, bytes]:
    """Return the contents of the result files."""
    from appliance.bench import report, width  # noqa: PLC0415 - as above

    with Progress("measuring", unit=str) as progress:
        results = width.measure_width(num_layers, kind, cases, threads, rounds, progress)
    return {_JSON: _as_bytes(results.as_json()), _TABLE: report.width_report(results).encode()}


def _as_bytes(value: dict[str, object]) -> bytes:
    return json.dumps(value, indent=1, allow_nan=False).encode() + b"\n"


def _prepare(folder: Path, *, force: bool, with_plot: bool) -> None:
    """Find out before the long work whether its results can be written."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (_JSON, _TABLE, _PLOT):
        if (folder / name).exists() and not force:
            raise ConfigError(f"{folder / name} exists already")
    if with_plot and not find_spec("matplotlib"):
        note("there will be no plot: it needs matplotlib, install windhover[plots]")


def _write(path: Path, data: bytes, *, force: bool) -> None:
    with AtomicFile(path, force=force) as file:
        file.create()
        file.write_at(0, data)
        file.commit()
