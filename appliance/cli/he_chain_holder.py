"""`windhover he-chain refresh`: the key holder's process, and the prompt that it keeps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from appliance.cli.he_chain_common import holder_option, open_holder
from appliance.cli.options import Decorator, json_option, with_options
from appliance.cli.output import note, write_json
from engine.errors import ConfigError

if TYPE_CHECKING:
    from he_chain.weights import ModelWeights

_PATH: Final = click.Path(path_type=Path)

_PROMPT: Final[tuple[Decorator, ...]] = (
    click.option("--prompt", help="Text to continue; no template is put around it."),
    click.option("--ids", metavar="N,N,...", help="The same as tokens of the model."),
    click.option("--tokens", type=click.IntRange(1, 4000), default=1, show_default=True,
                 help="How many tokens to generate."),
)  # fmt: skip


def prompt_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a prompt: `prompt`, `ids`, `tokens`."""
    return with_options(function, _PROMPT)


def prompt_ids(weights: ModelWeights, prompt: str | None, ids: str | None) -> list[int]:
    """Return the tokens of a prompt; ConfigError where there is none."""
    if (prompt is None) == (ids is None):
        raise click.UsageError("give either --prompt or --ids")
    if prompt is not None:
        return weights.tokenizer().encode(prompt)
    try:
        return [int(word) for word in (ids or "").split(",")]
    except ValueError:
        raise ConfigError("--ids takes whole numbers with commas between them") from None


@click.command()
@holder_option
@prompt_options
@click.option("--socket", type=_PATH, metavar="PATH", help="Listen there, for this user only.")
@click.option("--folder", type=_PATH, metavar="DIR", help="Or exchange files in this folder.")
@click.option("--weights", type=_PATH, metavar="FILE", help="The model, for a new prompt.")
@click.option("--once", is_flag=True, help="End when the first evaluator leaves.")
@json_option
def refresh(
    holder: Path,
    socket: Path | None,
    folder: Path | None,
    weights: Path | None,
    once: bool,
    prompt: str | None,
    ids: str | None,
    tokens: int,
    as_json: bool,
) -> None:
    """Answer evaluators with the secret key: decrypt, compute what is due, encrypt anew.

    With --weights a new prompt takes the place of the last one. What was decrypted never leaves
    this process but encrypted. It ends at the first refusal, after the evaluator was told.
    """
    from he_chain.roles.holder import KeyHolder  # noqa: PLC0415  (takes NumPy)
    from he_chain.roles.serve import serve_folder, serve_socket  # noqa: PLC0415
    from he_chain.roles.setup import read_key_id, read_ranges, write_session  # noqa: PLC0415
    from he_chain.weights import ModelWeights  # noqa: PLC0415

    if (socket is None) == (folder is None):
        raise click.UsageError("give either --socket or --folder")
    if weights is not None:
        with ModelWeights(weights) as model:
            found = prompt_ids(model, prompt, ids)
            write_session(holder, model, found, max_positions=len(found) + tokens - 1)
    elif prompt is not None or ids is not None:
        raise click.UsageError("a new prompt needs --weights")
    keeper = KeyHolder(holder, open_holder(holder), read_ranges(holder), read_key_id(holder))

    def ready() -> None:
        note("key holder: ready")
        if as_json:
            write_json({"ready": True})

    if socket is not None:
        serve_socket(keeper, socket, max_connections=1 if once else None, ready=ready)
    elif folder is not None:
        ready()
        serve_folder(keeper, folder)
