"""`windhover he-chain run`: key holder and evaluator as two processes in two folders."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import click

from appliance.cli.he_chain_common import (
    evaluator_option,
    gate_option,
    holder_option,
    open_holder,
    open_run,
    run_option,
)
from appliance.cli.he_chain_holder import prompt_ids, prompt_options
from appliance.cli.options import json_option, weights_argument
from appliance.cli.output import note, printable, write_json
from he_chain.errors import ProtocolError

_PROGRAM: Final = "from appliance.cli.main import main; main()"
_READY: Final = b'{"ready": true}'
_STOP_S: Final = 30


@click.command()
@weights_argument
@holder_option
@evaluator_option
@run_option
@prompt_options
@gate_option
@click.option("--all-logits", is_flag=True, help="Logits of tokens of the prompt as well.")
@json_option
def run(
    path: Path,
    holder: Path,
    evaluator: Path,
    run_folder: Path,
    prompt: str | None,
    ids: str | None,
    tokens: int,
    gate_bits: int,
    all_logits: bool,
    as_json: bool,
) -> int:
    """Let the model in FILE continue a prompt that the evaluator never sees.

    A run that was cut short goes on when the same command is given without a prompt. The evaluator
    is a process of its own that is told its folder, the run's and a socket, and nothing of the
    holder's. That the run finishes says nothing about precision: `report` measures it.
    """
    from he_chain.roles.session import load_session  # noqa: PLC0415  (takes NumPy)
    from he_chain.roles.setup import write_session  # noqa: PLC0415
    from he_chain.weights import ModelWeights  # noqa: PLC0415

    begun = (run_folder / "begin.rec").exists()
    if begun and (prompt is not None or ids is not None):
        raise click.UsageError(f"{run_folder} is begun; without a prompt it goes on")
    if not begun:
        with ModelWeights(path) as weights:
            found = prompt_ids(weights, prompt, ids)
            write_session(holder, weights, found, max_positions=len(found) + tokens - 1)
    with tempfile.TemporaryDirectory(prefix="windhover-he-") as place:
        socket = Path(place) / "holder.socket"
        code = _drive(path, holder, evaluator, run_folder, socket, gate_bits, all_logits, as_json)
    if code:
        return code
    answer = _answer(path, holder, run_folder, load_session(holder).ids)
    if as_json:
        write_json({"run": str(run_folder), "flow": "finished", "ids": answer[0]})
    else:
        click.echo(printable(answer[1]))
        note("the flow finished; `windhover he-chain report` says how precise it was")
    return 0


def _drive(
    path: Path,
    holder: Path,
    evaluator: Path,
    run_folder: Path,
    socket: Path,
    gate_bits: int,
    all_logits: bool,
    as_json: bool,
) -> int:
    """Start both processes and wait for the evaluator; return its exit code, or the holder's."""
    words = ["refresh", "--holder", str(holder), "--socket", str(socket), "--once", "--json"]
    keeper = subprocess.Popen([*this_command(), *words], stdout=subprocess.PIPE)  # noqa: S603  (ours)
    try:
        _wait_until_ready(keeper)
        words = ["resume", str(path), "--evaluator", str(evaluator), "--run", str(run_folder)]
        words += ["--socket", str(socket), "--gate-bits", str(gate_bits)]
        words += ["--all-logits"] * all_logits + ["--json"] * as_json
        code = subprocess.run([*this_command(), *words], check=False).returncode  # noqa: S603  (ours)
        if code:
            return code if code > 0 else 128 - code
        return keeper.wait(timeout=_STOP_S)
    except subprocess.TimeoutExpired:
        raise ProtocolError("the key holder does not end") from None
    finally:
        if keeper.poll() is None:
            keeper.terminate()
            keeper.wait()
        if keeper.stdout is not None:
            keeper.stdout.close()


def _wait_until_ready(keeper: subprocess.Popen[bytes]) -> None:
    """Read the key holder's first line; ProtocolError where it ends without one."""
    if keeper.stdout is None or keeper.stdout.readline().strip() != _READY:
        raise ProtocolError("the key holder did not start")


def this_command() -> list[str]:
    """Return how this program is started, with the same interpreter."""
    return [sys.executable, "-c", _PROGRAM, "he-chain"]


def _answer(
    path: Path, holder: Path, run_folder: Path, known: tuple[int, ...]
) -> tuple[list[int], str]:
    """Return the tokens of prompt and answer, and the answer's text, on the holder's side."""
    from he_chain.reports.measure import next_token  # noqa: PLC0415  (takes NumPy)
    from he_chain.roles.session import load_session  # noqa: PLC0415
    from he_chain.weights import ModelWeights  # noqa: PLC0415

    last = next_token(open_run(run_folder), open_holder(holder))
    every = [*known, *([] if last is None else [last])]
    with ModelWeights(path) as weights:
        text = weights.tokenizer().decode(every[load_session(holder).num_prompt :])
    return every, text
