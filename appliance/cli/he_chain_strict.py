"""`windhover he-chain strict`: one layer by polynomials; the key holder only refreshes."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from appliance.cli.he_chain_common import (
    BACKENDS,
    backend_of,
    create_holder,
    evaluator_option,
    gate_option,
    libraries,
    open_evaluator,
    open_holder,
    open_run,
    run_option,
    show_hop,
)
from appliance.cli.he_chain_run import this_command
from appliance.cli.options import json_option, weights_argument
from appliance.cli.output import format_bytes, note
from engine.errors import ConfigError

if TYPE_CHECKING:
    from he_chain.parameters import Parameters
    from he_chain.plaintext import PlainModel
    from he_chain.refresh_setup import Setup
    from he_chain.roles.refresh_holder import RefreshKeyHolder

_PATH: Final = click.Path(path_type=Path)
_RING: Final = 16384
_POLL_S: Final = 0.5


@click.command()
@weights_argument
@click.option("--holder", type=_PATH, metavar="DIR", help="Make keys there, or use them.")
@evaluator_option
@run_option
@click.option("--ids", metavar="N,N,...", help="Tokens that a new run takes, one after the other.")
@click.option("--layer", type=click.IntRange(0, 999), default=0, show_default=True)
@click.option(
    "--positions",
    type=click.IntRange(1, 16),
    default=8,
    show_default=True,
    help="Tokens that ranges are measured for.",
)
@click.option("--blind-bits", type=click.IntRange(1, 30), default=30, show_default=True)
@click.option("--levels", type=click.IntRange(1, 12), default=8, show_default=True)
@click.option("--scale-bits", type=click.IntRange(20, 59), default=39, show_default=True)
@click.option("--backend", type=click.Choice(BACKENDS), default="seal", show_default=True)
@click.option("--socket", type=_PATH, hidden=True)
@gate_option
@json_option
def strict(
    path: Path,
    holder: Path | None,
    evaluator: Path,
    run_folder: Path,
    ids: str | None,
    layer: int,
    positions: int,
    blind_bits: int,
    levels: int,
    scale_bits: int,
    backend: str,
    socket: Path | None,
    gate_bits: int,
    as_json: bool,
) -> int:
    """Run one layer of the model in FILE on ciphertexts by polynomials alone.

    With --holder this is the key holder, who makes keys where there are none, begins, starts the
    evaluator as a process that is not told its folder, and answers it: x + r is decrypted and
    encrypted again. The same command goes on with a run that was cut short.
    """
    from he_chain.parameters import Parameters  # noqa: PLC0415  (what follows takes NumPy)
    from he_chain.plaintext import PlainModel  # noqa: PLC0415

    with PlainModel(path) as model:
        if holder is None:
            if socket is None:
                raise click.UsageError("--holder is missing")
            return _evaluate(model, evaluator, run_folder, socket, as_json=as_json)
        if not (run_folder / "begin.rec").exists():
            new = Parameters(_RING, levels, scale_bits)
            tokens = _tokens(model, ids, positions)
            setup = _setup(model, holder, new, layer, positions, blind_bits, backend)
            if not (holder / "parameters.json").exists():
                _make_keys(setup, holder, evaluator)
            _begin(model, setup, holder, run_folder, tokens, gate_bits)
        keeper = _keeper(model, holder, run_folder)
    words = ["strict", str(path), "--evaluator", str(evaluator), "--run", str(run_folder)]
    words += ["--json"] * as_json
    with tempfile.TemporaryDirectory(prefix="windhover-he-") as place:
        return _serve(keeper, Path(place) / "holder.socket", words)


def _tokens(model: PlainModel, ids: str | None, positions: int) -> list[int]:
    """Return the tokens of a new run; ConfigError where they cannot be."""
    try:
        tokens = [int(word) for word in (ids or "").split(",")]
    except ValueError:
        raise ConfigError("--ids takes whole numbers with commas between them") from None
    if not all(0 <= token < model.config.vocab_size for token in tokens):
        raise ConfigError("--ids has a token that the model lacks")
    if len(tokens) > positions:
        raise ConfigError(f"ranges are measured for {positions} tokens (--positions)")
    return tokens


def _setup(
    model: PlainModel,
    holder: Path,
    parameters: Parameters,
    layer: int,
    positions: int,
    blind_bits: int,
    backend: str,
) -> Setup:
    """Plan for the keys that are there, or for those that will be made."""
    from he_chain.backends.key_folder import read_header  # noqa: PLC0415  (takes NumPy)
    from he_chain.refresh_setup import prepare  # noqa: PLC0415

    if (holder / "parameters.json").exists():
        backend = backend_of(holder)
        parameters = read_header(holder, backend).parameters
    return prepare(
        model, layer, parameters, positions=positions, blind_bits=blind_bits, backend=backend
    )


def _make_keys(setup: Setup, holder: Path, evaluator: Path) -> None:
    """Say the plan, and make keys in both folders."""
    from he_chain.roles.setup import write_keys  # noqa: PLC0415  (takes NumPy)

    plan = setup.plan
    for line in str(plan).splitlines():
        note(line)
    keeper = create_holder(plan.backend, plan.parameters)
    size_bytes = write_keys(keeper, holder, evaluator, plan.rotations)
    note(f"evaluation keys: {format_bytes(size_bytes)}")


def _begin(
    model: PlainModel,
    setup: Setup,
    holder: Path,
    run_folder: Path,
    tokens: list[int],
    gate_bits: int,
) -> None:
    """Begin a run: the tokens into the holder's folder, the begin record into the run's."""
    from he_chain.records.run_folder import Run  # noqa: PLC0415
    from he_chain.refresh_setup import begin_refresh  # noqa: PLC0415  (takes NumPy)
    from he_chain.roles.session import new_session  # noqa: PLC0415

    new_session(tokens, max_positions=len(tokens), num_layers=1).save(holder)
    versions = libraries(setup.plan.backend)
    Run.create(run_folder, begin_refresh(model, setup, gate_bits=gate_bits, libraries=versions))


def _keeper(model: PlainModel, holder: Path, run_folder: Path) -> RefreshKeyHolder:
    """Return what answers the evaluator of a run."""
    from he_chain.refresh_setup import layer_inputs, setup_of  # noqa: PLC0415  (takes NumPy)
    from he_chain.roles.refresh_holder import RefreshKeyHolder  # noqa: PLC0415
    from he_chain.roles.session import load_session  # noqa: PLC0415

    setup = setup_of(open_run(run_folder).begin, model)
    (inputs,) = layer_inputs(model, setup.layer, [load_session(holder).ids])
    return RefreshKeyHolder(open_holder(holder), setup, inputs)


def _serve(keeper: RefreshKeyHolder, socket: Path, words: list[str]) -> int:
    """Start the evaluator, answer it until it leaves, and return its exit code."""
    from he_chain.transport import SocketChannel, listening  # noqa: PLC0415

    with listening(socket) as listener:
        listener.settimeout(_POLL_S)
        command = [*this_command(), *words, "--socket", str(socket)]
        child = subprocess.Popen(command)  # noqa: S603  (ours)
        try:
            while child.poll() is None:
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                channel = SocketChannel(connection)
                try:
                    keeper.serve(channel)
                finally:
                    channel.close()
                child.wait()
        finally:
            if child.poll() is None:
                child.terminate()
                child.wait()
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _evaluate(
    model: PlainModel, evaluator: Path, run_folder: Path, socket: Path, *, as_json: bool
) -> int:
    """Run what is left: the evaluator's part."""
    from he_chain.refresh_chain import RefreshChain  # noqa: PLC0415  (takes NumPy)
    from he_chain.refresh_setup import setup_of  # noqa: PLC0415
    from he_chain.transport import connect  # noqa: PLC0415

    channel = connect(socket)
    try:
        run, keys = open_run(run_folder), open_evaluator(evaluator)
        chain = RefreshChain(run, keys, model, setup_of(run.begin, model), channel)
        chain.go(lambda record: show_hop(record, as_json=as_json))
    finally:
        channel.close()
    return 0
