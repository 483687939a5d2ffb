"""`windhover open`: the states that an auditor's challenge asks for, by whoever has all weights."""

from __future__ import annotations

from pathlib import Path

import click

from appliance.audit.claimed import read_claimed
from appliance.audit.findings import FailedError, Findings, OpenError
from appliance.audit.text_steps import check_model
from appliance.audit.weights import load_model
from appliance.bundle import MAX_BUNDLE_BYTES
from appliance.cli.bulk import usable_cores
from appliance.cli.credentials import Credentials, unlock_options
from appliance.cli.errors import EXIT_BAD, EXIT_INCOMPLETE, about
from appliance.cli.inputs import read_public
from appliance.cli.options import force_option, json_option
from appliance.cli.output import Progress, format_bytes, note, printable, write_json
from appliance.cli.values import parse_digest
from crypto.atomic import AtomicFile
from crypto.errors import KeyFileError
from engine.audit.challenge import MAX_UNITS

_PATH = click.Path(path_type=Path)


@click.command()
@click.argument("bundle_path", metavar="BUNDLE", type=_PATH)
@click.argument("target", metavar="OUT", type=_PATH)
@click.option("--weights", type=_PATH, metavar="FILE", required=True, help="The whole model.")
@click.option("--challenge", metavar="HEX", required=True, help="32 bytes that the auditor drew.")
@click.option(
    "--count",
    type=click.IntRange(1, MAX_UNITS),
    default=16,
    show_default=True,
    help="How many units the challenge asks for.",
)
@click.option("--threads", type=click.IntRange(1, 256), help="By default all usable cores.")
@unlock_options(key="--key", secret="--passphrase-file")  # noqa: S106  (a name)
@force_option
@json_option
def command(
    bundle_path: Path,
    target: Path,
    weights: Path,
    challenge: str,
    count: int,
    threads: int | None,
    credentials: Credentials,
    force: bool,
    as_json: bool,
) -> int:
    """Answer a challenge: write the opening of BUNDLE to OUT.

    The answer is computed again as a whole. What is written reveals the prompt to whoever reads it:
    states from which it can be told.
    """
    drawn = parse_digest(challenge)
    if drawn is None:
        raise click.UsageError("--challenge takes 64 hexadecimal digits in lower case")
    try:
        claimed = read_claimed(read_public(bundle_path, MAX_BUNDLE_BYTES))
        claimed.extent, claimed.answered, claimed.trace_root  # noqa: B018  (before a large load)
        with (
            credentials.unlock() as unlock,
            about(weights, errors=KeyFileError),
            Progress("loading") as progress,
        ):
            model = load_model(
                weights,
                unlock,
                claimed,
                num_threads=threads or usable_cores(),
                progress=progress,
            )
        with model:
            findings = Findings()
            check_model(findings, claimed, model)
            for step in findings:
                if step.reason is not None:
                    raise OpenError(step.reason)
            from appliance.audit.make_opening import make_opening  # noqa: PLC0415  (takes numba)

            with Progress("replaying", unit=lambda tokens: f"{tokens} tokens") as progress:
                opening = make_opening(claimed, model.engine, drawn, count, progress=progress)
    except (FailedError, OpenError) as error:
        note(f"there is no opening: {error.reason}")
        exit_code = EXIT_BAD if isinstance(error, FailedError) else EXIT_INCOMPLETE
        if as_json:
            write_json({"opened": False, "reason": error.reason, "exit_code": exit_code})
        return exit_code
    data = opening.encode()
    with AtomicFile(target, force=force, mode=0o600) as file:
        file.create()
        file.write_at(0, data)
        file.commit()
    if as_json:
        write_json({"opened": True, "units": len(opening.units), "size_bytes": len(data)})
    else:
        click.echo(
            f"{printable(str(target))}: {len(opening.units)} units, {format_bytes(len(data))}"
        )
    return 0
