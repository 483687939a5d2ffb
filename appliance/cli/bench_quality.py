"""`windhover bench quality`: what a quantiser or a profile costs, as perplexity."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.options import json_option, weights_argument
from appliance.cli.output import Progress, printable, write_json
from engine.errors import ConfigError

if TYPE_CHECKING:
    from appliance.bench.quality import Ids, Score
    from engine.model import Model

_MAX_TEXT_BYTES = 8 << 20


@click.command()
@weights_argument
@click.option(
    "--reference", type=click.Path(path_type=Path),
    help="Weights that FILE was made from; by default FILE itself without the rounding of wh1.",
)  # fmt: skip
@click.option(
    "--text", type=click.Path(path_type=Path),
    help="A UTF-8 text; by default a pinned one of 3072 tokens for SmolLM2's vocabulary.",
)  # fmt: skip
@click.option("--threads", type=int, help="By default the cores that the process may use.")
@json_option
def command(
    path: Path, reference: Path | None, text: Path | None, threads: int | None, as_json: bool
) -> None:
    """Measure the perplexity of the VQF file FILE, in profile wh1 and without its rounding.

    The reference is a file in profile wh1-float, which needs memory for every weight as binary32.
    """
    # Imported here: the engine takes numba, which `--help` and usage errors need not wait for.
    from appliance.bench.quality import (  # noqa: PLC0415
        Subject,
        evaluate,
        pinned_windows,
        windows,
    )

    raw = None if text is None else _read(text)

    def choose(model: Model) -> Ids:
        if raw is None:
            return pinned_windows(model.config.vocab_size)
        return windows(model.tokenizer.encode_raw(raw))

    subjects = [Subject(path, float_profile=True), Subject(path, float_profile=False)]
    if reference is not None:
        subjects.insert(0, Subject(reference, float_profile=True))
    with Progress("window", unit=str) as progress:
        scores = evaluate(subjects, choose, threads=threads, progress=progress)
    if as_json:
        write_json({"schema": "windhover-bench-quality/1", "scores": [_as_json(s) for s in scores]})
        return
    for line in _table(scores):
        click.echo(printable(line))


def _read(path: Path) -> str:
    with path.open("rb") as stream:
        raw = stream.read(_MAX_TEXT_BYTES + 1)
    if len(raw) > _MAX_TEXT_BYTES:
        raise ConfigError(f"the text is longer than {_MAX_TEXT_BYTES} bytes")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"the text is not UTF-8 at byte {error.start}") from None


def _as_json(score: Score) -> dict[str, object]:
    return {
        "file": str(score.subject.path),
        "profile": score.subject.profile,
        "perplexity": score.perplexity,
        "window_nll": list(score.window_nll),
        "mean_abs_logprob_difference": score.logprob_difference,
        "mean_divergence": score.divergence,
        "same_choice": score.same_choice,
    }


def _table(scores: list[Score]) -> list[str]:
    from appliance.bench.table import table  # noqa: PLC0415 - as above

    header = ("weights", "profile", "perplexity", "log p differs by", "divergence", "same choice")
    rows = []
    for score in scores:
        row = [score.subject.path.name, score.subject.profile, f"{score.perplexity:.3f}"]
        if score.logprob_difference is None or score.divergence is None:
            row += ["reference", "", ""]
        else:
            share = f"{(score.same_choice or 0.0) * 100:.1f} %"
            row += [f"{score.logprob_difference:.4f}", f"{score.divergence:.5f}", share]
        rows.append(row)
    return table(header, rows)
