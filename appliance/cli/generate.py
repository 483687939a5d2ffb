"""`windhover generate`: one prompt, one answer, streamed to the terminal."""

from __future__ import annotations

import gc
import io
import secrets
import sys
import time
import unicodedata
from pathlib import Path

import click

from appliance.cli.options import admit_unsigned, dev_option, json_option, weights_argument
from appliance.cli.output import Progress, printable, write_json
from engine.errors import ConfigError
from engine.sampling.parameters import SamplingParameters, millionths
from engine.text.stop import StopMatcher
from engine.vqf import open_vqf

_MAX_PROMPT_BYTES = 8 << 20


def _read_prompt(text: str | None, file: Path | None) -> str:
    if text is not None and file is None:
        return text
    if file is None or text is not None:
        raise click.UsageError("give either --prompt or --prompt-file")
    raw = sys.stdin.buffer.read(_MAX_PROMPT_BYTES + 1) if str(file) == "-" else _read_file(file)
    if len(raw) > _MAX_PROMPT_BYTES:
        raise ConfigError(f"the prompt is longer than {_MAX_PROMPT_BYTES} bytes")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"the prompt is not UTF-8 at byte {error.start}") from None


def _read_file(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(_MAX_PROMPT_BYTES + 1)


def _is_harmless(character: str) -> bool:
    """Whether an answer may bring it to a terminal: line breaks, any space, joiners of scripts."""
    return character in "\n\t\u200c\u200d" or unicodedata.category(character) == "Zs"


def _show(text: str) -> None:
    """Write a piece of an answer; control characters that could steer a terminal are escaped."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal need not know every script
    click.echo("".join(c if _is_harmless(c) else printable(c) for c in text), nl=False)
    sys.stdout.flush()


@click.command()
@weights_argument
@click.option("--prompt", help="The user's message.")
@click.option(
    "--prompt-file",
    type=click.Path(path_type=Path),
    help="Read the message from a file; - is stdin.",
)
@click.option("--system", help="A system message before it.")
@click.option("--raw", is_flag=True, help="Continue the text as it is, without the chat template.")
@click.option("--max-tokens", type=click.IntRange(min=1), default=256, show_default=True)
@click.option("--seed", type=int, help="Drawn at random when it is not given, and reported.")
@click.option(
    "--temperature", default="0.7", show_default=True, help="0 takes the likeliest token."
)
@click.option("--top-p", default="1", show_default=True)
@click.option("--top-k", type=int, default=0, show_default=True)
@click.option("--min-p", default="0", show_default=True)
@click.option("--stop", "stops", multiple=True, help="A string that ends the answer; repeatable.")
@click.option("--residency", type=click.Choice(["full"]), default="full", show_default=True)
@click.option(
    "--threads", type=click.IntRange(1, 256), help="By default the cores that the process may use."
)
@click.option(
    "--context",
    type=click.IntRange(min=1),
    help="Longest sequence in tokens; by default the model's.",
)
@click.option("--no-trace", is_flag=True, help="Do not hash the residual stream.")
@dev_option
@json_option
def command(
    path: Path,
    prompt: str | None,
    prompt_file: Path | None,
    system: str | None,
    raw: bool,
    max_tokens: int,
    seed: int | None,
    temperature: str,
    top_p: str,
    top_k: int,
    min_p: str,
    stops: tuple[str, ...],
    residency: str,
    threads: int | None,
    context: int | None,
    no_trace: bool,
    dev: bool,
    as_json: bool,
) -> None:
    """Let the model in FILE answer one prompt."""
    started_s = time.perf_counter()
    if raw and system is not None:
        raise click.UsageError("--raw has no place for a --system message")
    text = _read_prompt(prompt, prompt_file)
    chosen_seed = secrets.randbits(64) if seed is None else seed
    sampling = SamplingParameters(
        seed=chosen_seed,
        temperature_millionths=millionths(temperature),
        top_p_millionths=millionths(top_p),
        top_k=top_k,
        min_p_millionths=millionths(min_p),
    )
    StopMatcher(stops)  # refuses wrong ones now, not after a large model has been read
    with open_vqf(path):  # what is no VQF file is refused for that, not for having no signature
        admit_unsigned(path, dev=dev)
    gc.disable()  # loading makes a few million objects that stay: looking for garbage finds none
    # Imported here: the engine takes numba, which `--help` and usage errors need not wait for.
    from engine.model import Model  # noqa: PLC0415

    with Progress("loading") as progress:
        model = Model(path, num_threads=threads, max_positions=context, progress=progress)
    from engine.generate import generate  # noqa: PLC0415
    from engine.sequence import Request  # noqa: PLC0415

    gc.freeze()
    gc.enable()

    with model:
        if raw or (model.template is None and system is None):
            ids = model.tokenizer.encode_raw(text)
        else:
            messages = [] if system is None else [{"role": "system", "content": system}]
            messages.append({"role": "user", "content": text})
            ids = model.chat_ids(messages, now_unix_s=int(time.time()))
        request = Request(
            tuple(ids), max_tokens, sampling, model.tokenizer_config.eos_ids, trace=not no_trace
        )
        ready_s = time.perf_counter()
        first_s: list[float] = []

        def on_text(piece: str) -> None:
            first_s.append(time.perf_counter())
            if not as_json:
                _show(piece)

        answer = generate(model, request, stops=stops, on_text=on_text)
        done_s = time.perf_counter()
    if not as_json:
        click.echo()
        return
    write_json(
        {
            "text": answer.text,
            "token_ids": list(answer.token_ids),
            "finish_reason": answer.finish_reason.value,
            "trace_root": None if answer.trace_root is None else answer.trace_root.hex(),
            "prompt_tokens": answer.prompt_tokens,
            "model_digest": model.model_digest.hex(),
            "seed": chosen_seed,
            "residency": residency,
            "kernel_path": _kernel_path(),
            "threads": model.engine.num_threads,
            "timings": {
                "load_ms": round((ready_s - started_s) * 1e3, 3),
                "first_text_ms": round((first_s[0] - ready_s) * 1e3, 3) if first_s else None,
                "generate_ms": round((done_s - ready_s) * 1e3, 3),
            },
        }
    )


def _kernel_path() -> str:
    from engine.kernels.target import TARGET  # noqa: PLC0415

    return TARGET.path
