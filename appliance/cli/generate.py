"""`windhover generate`: one prompt, one answer, streamed to the terminal."""

from __future__ import annotations

import gc
import io
import secrets
import sys
import time
import unicodedata
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.access import Access, access_options
from appliance.cli.attest import Attestation, attest_options
from appliance.cli.options import json_option, weights_argument
from appliance.cli.output import Progress, printable, write_json
from appliance.cli.residency import residency_options
from appliance.cli.values import now_s
from appliance.cli.verdict import verdict_as_json
from engine.errors import ConfigError
from engine.sampling.parameters import SamplingParameters, millionths
from engine.text.stop import StopMatcher

if TYPE_CHECKING:
    from appliance.cli.attested_answer import Opened
    from engine.admission import WeightsPolicy
    from engine.memory.residency import Residency
    from engine.model import Model

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
@residency_options
@click.option(
    "--threads", type=click.IntRange(1, 256), help="By default the cores that the process may use."
)
@click.option(
    "--context",
    type=click.IntRange(min=1),
    help="Longest sequence in tokens; by default the model's.",
)
@click.option("--no-trace", is_flag=True, help="Do not hash the residual stream.")
@access_options
@attest_options
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
    residency: Residency,
    threads: int | None,
    context: int | None,
    no_trace: bool,
    access: Access,
    attestation: Attestation,
    as_json: bool,
) -> None:
    """Let the model in FILE answer one prompt, if the trust file admits it.

    Nothing of the weights is used before their policy was asked and every byte verified. When they
    are loaded, the floors rise to their release: an older one is refused from then on.

    With --attest-key, --log and --anchor the request is logged before the first token, and the
    command ends when a signed statement about the answer is on the disk.
    """
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
    is_attested = attestation.is_wanted
    attestation.nonce_bytes()
    StopMatcher(stops)  # refuses wrong ones now, not after a large model has been read
    now = now_s()
    policy = access.policy_files.read(now=now)
    with ExitStack() as stack:
        into = stack.enter_context(_opened(attestation, policy)) if is_attested else None
        gc.disable()  # loading makes millions of objects that stay: looking for garbage finds none
        # Imported here: the engine takes numba, which `--help` and usage errors need not wait for.
        from engine.model import Model  # noqa: PLC0415

        with (
            access.credentials.unlock() as unlock,
            access.policy_files.loading(path, policy),
            Progress("loading") as progress,
        ):
            model = stack.enter_context(
                Model(
                    path,
                    policy=policy,
                    unlock=unlock,
                    now_unix_s=now,
                    num_threads=threads,
                    max_positions=context,
                    residency=residency,
                    progress=progress,
                )
            )
        gc.freeze()
        gc.enable()
        ready_s = time.perf_counter()
        first_s: list[float] = []

        def on_text(piece: str) -> None:
            first_s.append(time.perf_counter())
            if not as_json:
                _show(piece)

        if into is None:
            from engine.generate import generate  # noqa: PLC0415
            from engine.sequence import Request  # noqa: PLC0415

            ids = _prompt_ids(model, text, system, raw=raw)
            eos_ids = model.tokenizer_config.eos_ids
            request = Request(ids, max_tokens, sampling, eos_ids, trace=not no_trace)
            ready_s = time.perf_counter()
            answer, bundle = generate(model, request, stops=stops, on_text=on_text), None
        else:
            from appliance.cli.attested_answer import Wish, answer_attested  # noqa: PLC0415

            options = {
                "max_tokens": max_tokens,
                "seed": seed,
                "temperature": temperature,
                "top_p": top_p,
                "top_k": top_k,
                "min_p": min_p,
                "stop": list(stops) or None,
            }
            answer, bundle, chosen_seed = answer_attested(
                model,
                Wish(text, system, raw, options),
                attestation,
                into,
                revocations=access.policy_files.revocations,
                trace=not no_trace,
                on_text=on_text,
            )
        done_s = time.perf_counter()
    if not as_json:
        click.echo()
        return
    value: dict[str, object] = {
        "text": answer.text,
        "token_ids": list(answer.token_ids),
        "finish_reason": answer.finish_reason.value,
        "trace_root": None if answer.trace_root is None else answer.trace_root.hex(),
        "prompt_tokens": answer.prompt_tokens,
        "model_digest": model.model_digest.hex(),
        "verdict": verdict_as_json(model.admission, policy),
        "seed": chosen_seed,
        "residency": residency.mode,
        "kernel_path": _kernel_path(),
        "threads": model.engine.num_threads,
        "timings": {
            "load_ms": round((ready_s - started_s) * 1e3, 3),
            "first_text_ms": round((first_s[0] - ready_s) * 1e3, 3) if first_s else None,
            "generate_ms": round((done_s - ready_s) * 1e3, 3),
        },
    }
    if bundle is not None:
        value["attestation"] = attestation.as_json(bundle)
    write_json(value)


def _prompt_ids(model: Model, text: str, system: str | None, *, raw: bool) -> tuple[int, ...]:
    if raw or (model.template is None and system is None):
        return tuple(model.tokenizer.encode_raw(text))
    messages = [] if system is None else [{"role": "system", "content": system}]
    messages.append({"role": "user", "content": text})
    return tuple(model.chat_ids(messages, now_unix_s=int(time.time())))


def _opened(attestation: Attestation, policy: WeightsPolicy) -> AbstractContextManager[Opened]:
    from appliance.cli.attested_answer import opened  # noqa: PLC0415

    return opened(attestation, policy)


def _kernel_path() -> str:
    from simd.target import TARGET  # noqa: PLC0415

    return TARGET.path
