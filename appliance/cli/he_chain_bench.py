"""`windhover he-chain bench`: operations of SEAL, and matrix products against TenSEAL's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from appliance.cli.errors import EXIT_BAD
from appliance.cli.options import json_option
from appliance.cli.output import note, write_json

if TYPE_CHECKING:
    from he_chain.bench.operations import OperationTime
    from he_chain.bench.products import ProductTime


@click.command()
@click.option(
    "--ring", "rings", type=click.Choice(("8192", "16384")), multiple=True,
    help="Ring degrees; by default both.",
)  # fmt: skip
@click.option(
    "--size", "sizes", type=click.IntRange(2, 1024), multiple=True,
    help="Rows and columns of the matrices; by default 64, 128, 256, 576.",
)  # fmt: skip
@click.option("--rounds", type=click.IntRange(1, 99), default=3, show_default=True)
@json_option
def bench(rings: tuple[str, ...], sizes: tuple[int, ...], rounds: int, as_json: bool) -> int:
    """Time single operations, and our matrix products against `ckks_vector.matmul`.

    Same parameters, same matrices, same run. Exit code 1 where the product that the chain uses is
    not at least ten times as fast.
    """
    from he_chain.bench.bench import SETS, collect, run_bench  # noqa: PLC0415  (takes TenSEAL)

    chosen = [p for p in SETS if not rings or str(p.ring_degree) in rings]
    figures = run_bench(chosen, sizes=sizes or (64, 128, 256, 576), rounds=rounds)
    found = collect(_told(figures))
    if as_json:
        write_json(found.as_json())
    else:
        click.echo(found.as_markdown())
    return 0 if found.reaches_bar else EXIT_BAD


def _told(
    figures: Iterator[OperationTime | ProductTime],
) -> Iterator[OperationTime | ProductTime]:
    """Pass figures on and say each on stderr."""
    from he_chain.bench.products import ProductTime  # noqa: PLC0415  (takes TenSEAL)

    for figure in figures:
        if isinstance(figure, ProductTime):
            what = f"{figure.size} x {figure.size}, {figure.way}: {figure.ratio:.1f} times faster"
        else:
            what = f"{figure.operation}: {figure.cpu_s * 1e3:.2f} ms"
        note(f"N = {figure.ring_degree}, level {figure.level}, {what}")
        yield figure
