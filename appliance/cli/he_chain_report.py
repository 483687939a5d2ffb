"""`windhover he-chain report`: measure every checkpoint, and sign what was found."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from appliance.cli.bulk import usable_cores
from appliance.cli.errors import EXIT_BAD, EXIT_INCOMPLETE
from appliance.cli.he_chain_common import holder_option, open_run, run_option
from appliance.cli.he_chain_side import decrypting
from appliance.cli.options import json_option, weights_argument
from appliance.cli.output import Progress, printable, write_json
from appliance.cli.secrets import SOURCES, private_keys

_PATH: Final = click.Path(path_type=Path)
EXITS: Final = {"PASS": 0, "FAIL": EXIT_BAD, "INCOMPLETE": EXIT_INCOMPLETE}
"""Exit codes by verdict."""


@click.command()
@weights_argument
@run_option
@holder_option
@click.option(
    "--key", type=_PATH, required=True, metavar="FILE", help="Private key of role `attest`."
)
@click.option(
    "--key-passphrase-file", "key_secret", metavar=SOURCES, help="Passphrase of that key."
)
@click.option("--out", type=_PATH, required=True, metavar="DIR", help="Where the report goes.")
@click.option(
    "--exact-only", is_flag=True, help="Leave out the engine's own pass in profile wh1-float."
)
@json_option
def report(
    path: Path,
    run_folder: Path,
    holder: Path,
    key: Path,
    key_secret: str | None,
    out: Path,
    exact_only: bool,
    as_json: bool,
) -> int:
    """Decrypt each checkpoint of a run, compare it with the model in FILE, and sign a report.

    Exit code 0 is PASS, 1 is FAIL and 3 INCOMPLETE. The report holds errors of decrypted values:
    under a key that stays in use it is for its holder only.
    """
    from crypto.signer import SoftwareSigner  # noqa: PLC0415  (what follows takes NumPy)
    from he_chain.plaintext import PlainModel  # noqa: PLC0415
    from he_chain.reports.measure import measure  # noqa: PLC0415
    from he_chain.reports.references import make_references  # noqa: PLC0415
    from he_chain.reports.report import build_report  # noqa: PLC0415
    from he_chain.reports.report_folder import write_report  # noqa: PLC0415
    from he_chain.roles.session import load_session  # noqa: PLC0415

    run = open_run(run_folder)
    with private_keys([key], key_secret, role="attest") as keys:
        with PlainModel(path) as model, decrypting(run.begin, holder, model) as keeper:
            references = make_references(
                model,
                load_session(holder).ids,
                float_profile=not exact_only,
                num_threads=usable_cores(),
            )
            with Progress("decrypting", unit=str) as progress:
                measurement = measure(run, keeper, references, progress=progress)
        found = build_report(run, measurement)
        names = write_report(out, found, SoftwareSigner(keys[0]))
    _show(found, out, names, as_json=as_json)
    return EXITS[found["verdict"]["verdict"]]


def _show(report: dict[str, Any], out: Path, names: list[str], *, as_json: bool) -> None:
    """Print the verdict and the figures behind it."""
    verdict = report["verdict"]
    if as_json:
        security = report["begin"]["security"]
        found = {"out": str(out), "files": names, "security": security, "flow": report["flow"]}
        write_json({**found, **verdict})
        return
    below = {tuple(place) for place in verdict["below"]}
    for one in report["measured"]["checkpoints"]:
        where = "head" if one["layer"] is None else f"layer {one['layer']}"
        bits = ", ".join(
            f"{_bits(figures['bits'])} bits against {name}"
            for name, figures in one["against"].items()
        )
        equal = "" if not one["argmax_equal"] else _equal(one)
        word = "FAIL" if (one["number"], one["tensor"]) in below else "PASS"
        click.echo(f"token {one['position']:3} {where:9} {bits}{equal} | {word}")
    click.echo(f"security: {printable(report['begin']['security'])}")
    click.echo(
        f"{verdict['verdict']}: gate {verdict['gate_bits']} bits, {verdict['checkpoints']} "
        f"checkpoints, {len(below)} below, {verdict['not_measured']} not measured"
    )


def _bits(bits: float | None) -> str:
    return "no number of" if bits is None else f"{bits:.2f}"


def _equal(one: dict[str, Any]) -> str:
    argmax = "equal" if all(one["argmax_equal"].values()) else "OTHER"
    top = "equal" if all(one["top5_equal"].values()) else "other"
    return f", argmax {argmax}, top 5 {top}"
