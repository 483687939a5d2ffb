"""`windhover he-chain verify`: is a report true, as far as can be checked from here?"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from appliance.cli.bulk import usable_cores
from appliance.cli.errors import EXIT_BAD, EXIT_INCOMPLETE
from appliance.cli.he_chain_common import run_option
from appliance.cli.he_chain_report import EXITS
from appliance.cli.he_chain_side import decrypting, plan_digests
from appliance.cli.options import json_option
from appliance.cli.output import Progress, printable, write_json
from engine.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from he_chain.records.record import Begin
    from he_chain.reports.verify import KeySide


_PATH: Final = click.Path(path_type=Path)


class _Given(NamedTuple):
    """What there is to check against; None is left unchecked."""

    model_digest: bytes | None = None
    plan_of: Callable[[Begin], tuple[bytes, bytes]] | None = None
    side: KeySide | None = None


@click.command()
@click.argument("folder", metavar="REPORT", type=_PATH)
@run_option
@click.option("--public-key", type=_PATH, metavar="FILE", help="Whose signature is wanted.")
@click.option("--weights", type=_PATH, metavar="FILE", help="The model that was meant.")
@click.option(
    "--holder", type=_PATH, metavar="DIR",
    help="The key holder's folder: decrypt and measure everything again.",
)  # fmt: skip
@json_option
def verify(
    folder: Path,
    run_folder: Path,
    public_key: Path | None,
    weights: Path | None,
    holder: Path | None,
    as_json: bool,
) -> int:
    """Check the report in REPORT against its run.

    Hashes, order, levels, parameters and signature take no secret. The figures take the holder's
    folder and the model; without these they are not checked, and the exit code is 3. It is 1 where
    something did not verify, or all verified and the verdict is FAIL, and 0 for a PASS that is
    true.
    """
    from crypto.keys import load_public_key  # noqa: PLC0415  (what follows takes NumPy)
    from he_chain.reports.verify import FAILED, UNCHECKED  # noqa: PLC0415
    from he_chain.reports.verify import verify as check  # noqa: PLC0415

    if holder is not None and weights is None:
        raise click.UsageError("--holder needs --weights: figures are compared with the model")
    for path in (folder / "report.json", run_folder / "begin.rec"):
        if not path.exists():
            raise ConfigError(f"{path}: there is nothing to verify")
    key = None if public_key is None else load_public_key(public_key, role="attest")
    with ExitStack() as stack:
        given = _Given() if weights is None else _given(stack, weights, holder, folder, run_folder)
        progress = stack.enter_context(Progress("decrypting", unit=str))
        outcome = check(
            folder,
            run_folder,
            public_key=key,
            key_side=given.side,
            model_digest=given.model_digest,
            plan_of=given.plan_of,
            progress=progress,
        )
    codes = {FAILED: EXIT_BAD, UNCHECKED: EXIT_INCOMPLETE}
    code = codes.get(outcome.outcome, EXITS.get(outcome.verdict, EXIT_INCOMPLETE))
    if as_json:
        write_json(
            {
                "outcome": outcome.outcome,
                "verdict": outcome.verdict,
                "checks": [
                    {"name": f.name, "outcome": f.outcome, "detail": f.detail}
                    for f in outcome.findings
                ],
                "exit_code": code,
            }
        )
        return code
    for finding in outcome.findings:
        click.echo(f"{finding.name:12} {finding.outcome:20} {printable(finding.detail)}")
    click.echo(f"{outcome.outcome}; the report says {printable(outcome.verdict)}")
    return code


def _given(
    stack: ExitStack, weights: Path, holder: Path | None, folder: Path, run_folder: Path
) -> _Given:
    """Open the model and, where the holder's folder was given, what takes the secret key."""
    from he_chain.plaintext import PlainModel  # noqa: PLC0415
    from he_chain.records.run_folder import Run  # noqa: PLC0415
    from he_chain.reports.measure import FLOAT_PROFILE  # noqa: PLC0415  (takes NumPy)
    from he_chain.reports.references import make_references  # noqa: PLC0415
    from he_chain.reports.report_folder import references_of  # noqa: PLC0415
    from he_chain.reports.verify import KeySide  # noqa: PLC0415
    from he_chain.roles.session import load_session  # noqa: PLC0415

    model = stack.enter_context(PlainModel(weights))
    if holder is None:
        return _Given(model.model_digest)
    place = holder
    references = make_references(
        model,
        load_session(place).ids,
        float_profile=FLOAT_PROFILE in references_of(folder),
        num_threads=usable_cores(),
    )
    keeper = stack.enter_context(decrypting(Run.open(run_folder).begin, place, model))
    return _Given(
        model.model_digest,
        lambda begin: plan_digests(begin, place, model),
        KeySide(keeper, references),
    )
