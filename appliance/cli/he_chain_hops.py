"""`windhover he-chain lay`, `fin` and `resume`: the evaluator's process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from appliance.cli.he_chain_common import (
    backend_of,
    evaluator_option,
    gate_option,
    libraries,
    open_evaluator,
    run_option,
    show_hop,
)
from appliance.cli.options import Decorator, json_option, weights_argument, with_options
from engine.errors import ConfigError

if TYPE_CHECKING:
    from he_chain.chain import Chain
    from he_chain.records.run_folder import Run
    from he_chain.transport import Channel
    from he_chain.weights import ModelWeights

_PATH: Final = click.Path(path_type=Path)

_options: tuple[Decorator, ...] = (
    weights_argument,
    evaluator_option,
    run_option,
    click.option("--socket", type=_PATH, metavar="PATH", help="Where the key holder listens."),
    click.option("--folder", type=_PATH, metavar="DIR", help="Or the folder of messages."),
    gate_option,
    click.option("--all-logits", is_flag=True, help="Logits of tokens of the prompt as well."),
)


def _where(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say where everything is."""
    return with_options(function, _options)


@contextmanager
def _chain(
    path: Path,
    evaluator: Path,
    run_folder: Path,
    socket: Path | None,
    folder: Path | None,
    gate_bits: int,
    all_logits: bool,
) -> Iterator[Chain]:
    """Open keys, weights and run, begun where there is none, and greet the key holder."""
    from he_chain.chain import Chain  # noqa: PLC0415  (takes NumPy)
    from he_chain.roles.setup import read_key_id, read_ranges  # noqa: PLC0415
    from he_chain.transport import FolderChannel, connect  # noqa: PLC0415
    from he_chain.weights import ModelWeights  # noqa: PLC0415

    if (socket is None) == (folder is None):
        raise click.UsageError("give either --socket or --folder")
    keys = open_evaluator(evaluator)
    ranges = read_ranges(evaluator)
    with ModelWeights(path) as weights:
        run = _open_run(run_folder, weights, evaluator, gate_bits)
        agreed = {
            "calibration": ranges.digest(),
            "key": read_key_id(evaluator),
            "model": weights.model_digest,
        }
        channel: Channel
        if socket is not None:
            channel = connect(socket)
        else:
            channel = FolderChannel(folder or run_folder, holder=False)
        try:
            yield Chain(run, keys, weights, channel, agreed, logits_of_all=all_logits)
        finally:
            channel.close()


def _open_run(folder: Path, weights: ModelWeights, evaluator: Path, gate_bits: int) -> Run:
    """Return the run in a folder as far as it has come, or a new one."""
    from he_chain.backends.key_folder import read_header  # noqa: PLC0415
    from he_chain.chain import begin_run  # noqa: PLC0415
    from he_chain.planning.assist_plan import plan_assist  # noqa: PLC0415  (takes NumPy)
    from he_chain.records.run_folder import Run  # noqa: PLC0415
    from he_chain.roles.setup import read_ranges  # noqa: PLC0415

    if (folder / "begin.rec").exists():
        return Run.open(folder)
    backend = backend_of(evaluator)
    parameters, ranges = read_header(evaluator, backend).parameters, read_ranges(evaluator)
    plan = plan_assist(weights.config, parameters, ranges, backend=backend)
    begin = begin_run(
        weights,
        parameters,
        ranges,
        backend=backend,
        plan_digest=plan.digest(),
        gate_bits=gate_bits,
        libraries=libraries(backend),
    )
    return Run.create(folder, begin)


def _one_hop(kind: str, as_json: bool, **where: object) -> None:
    """Compute the hop that is due if it is of a kind.

    Raises:
        ConfigError: another one is due, or none.
    """
    with _chain(**where) as chain:  # type: ignore[arg-type]
        due = chain.due()
        if due is None or due.kind != kind:
            what = "nothing" if due is None else f"{due.kind} of token {due.position}"
            raise ConfigError(f"{what} is due, and not {kind}")
        show_hop(chain.hop(due), as_json=as_json)


@click.command()
@_where
@json_option
def lay(as_json: bool, **where: object) -> None:
    """Compute one layer of one token; the run is begun where there is none."""
    _one_hop("lay", as_json, **where)


@click.command()
@_where
@json_option
def fin(as_json: bool, **where: object) -> None:
    """Compute the logits of a token whose layers are done."""
    _one_hop("fin", as_json, **where)


@click.command()
@_where
@click.option("--hops", type=click.IntRange(1), help="Stop after so many.")
@json_option
def resume(hops: int | None, as_json: bool, **where: object) -> None:
    """Compute what a run lacks, from its last whole hop on.

    A hop that was cut short is computed again. Folder, evaluation keys and weights are all it
    takes, so another machine can go on.
    """
    with _chain(**where) as chain:  # type: ignore[arg-type]
        chain.go(partial(show_hop, as_json=as_json), max_hops=hops)
