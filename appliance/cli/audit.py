"""`windhover audit`: does an answer follow from its request under the model that it names?"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.audit.challenge import Challenge, draw_challenge, kept_challenge
from appliance.audit.claimed import Claimed, read_claimed
from appliance.audit.findings import (
    A4,
    A5,
    EXIT_CODES,
    FAIL,
    INCOMPLETE,
    TEXT,
    FailedError,
    Findings,
    OpenError,
)
from appliance.audit.opening import MAX_OPENING_BYTES
from appliance.audit.report import AuditReport
from appliance.audit.text_steps import check_model, check_text
from appliance.audit.weights import FileIdentity, load_model
from appliance.bundle import MAX_BUNDLE_BYTES
from appliance.cli.bulk import bulk_for, usable_cores
from appliance.cli.credentials import Credentials, unlock_options
from appliance.cli.errors import about
from appliance.cli.inputs import default_floors, read_public
from appliance.cli.options import json_option
from appliance.cli.output import Progress, note, write_json
from crypto.errors import KeyFileError
from crypto.trust_toml import MAX_BYTES as MAX_TRUST_BYTES
from engine.audit.challenge import MAX_UNITS
from engine.vqf import open_vqf
from verifier.errors import UsageError
from verifier.expectations import RUNGS, Expectations
from verifier.verify import verify

if TYPE_CHECKING:
    from engine.vqf import VqfFile
    from engine.vqf.unlock import Unlock
    from verifier.report import Report

_PATH = click.Path(path_type=Path)
_HOLDS_PROOF = (5, 11, 13)
"""Steps of the verifier: the statement's signature, the checkpoint's, the statement in the log."""


@click.command()
@click.argument("bundle_path", metavar="BUNDLE", type=_PATH)
@click.option("--weights", type=_PATH, metavar="FILE", help="The model, as a VQF file.")
@click.option("--full", is_flag=True, help="Compute the whole answer again (A5).")
@click.option("--text", is_flag=True, help="Check request, prompt ids and text; read no layer.")
@click.option("--opening", type=_PATH, metavar="FILE", help="Check sampled units (A4).")
@click.option(
    "--new-challenge", is_flag=True, help="Draw a challenge for the bundle's statement, once."
)
@click.option(
    "--challenges",
    type=_PATH,
    metavar="DIR",
    help="Where challenges are kept, one for each statement; by default `windhover/challenges` in "
    "$XDG_STATE_HOME or ~/.local/state.",
)
@click.option(
    "--count",
    type=click.IntRange(1, MAX_UNITS),
    default=16,
    show_default=True,
    help="How many units a new challenge asks for.",
)
@click.option("--trust", type=_PATH, metavar="FILE", help="Whom you rely on (trust.toml).")
@click.option(
    "--need", default=",".join(RUNGS), show_default=True, help="Rungs of the verifier that count."
)
@click.option("--threads", type=click.IntRange(1, 256), help="By default all usable cores.")
@unlock_options(key="--key", secret="--passphrase-file")  # noqa: S106  (a name)
@json_option
def command(
    bundle_path: Path,
    weights: Path | None,
    full: bool,
    text: bool,
    opening: Path | None,
    new_challenge: bool,
    challenges: Path | None,
    count: int,
    trust: Path | None,
    need: str,
    threads: int | None,
    credentials: Credentials,
    as_json: bool,
) -> int:
    """Check by re-execution that the answer in BUNDLE follows from its request.

    --full needs the whole model and finds everything. --text needs its tokenizer and template.
    --opening takes what `windhover open` made for the challenge that --new-challenge drew, and
    reads the weights of the sampled units only. With --trust the statement itself is verified, too;
    without it the verdict is at most
    INCOMPLETE.
    """
    if sum((full, text, opening is not None, new_challenge)) != 1:
        raise click.UsageError("give one of --full, --text, --opening, --new-challenge")
    data = read_public(bundle_path, MAX_BUNDLE_BYTES)
    verified = None if trust is None else _verify(data, trust, need)
    if new_challenge:
        return _draw(data, verified, _folder(challenges), count, as_json)
    if weights is None:
        raise click.UsageError("--weights names the model")
    findings = Findings()
    words = "bundle and statement are well formed, and the texts open the commitments"
    claimed = findings.make(TEXT, "bundle", words, lambda: read_claimed(data))
    rung = A5 if full else TEXT if text else A4
    if claimed is None:
        report = AuditReport(rung, findings, verified)
    else:
        audit = _Audit(findings, claimed, weights, threads or usable_cores())
        with credentials.unlock() as unlock, about(weights, errors=KeyFileError):
            mine = None if opening is None else kept_challenge(_folder(challenges), claimed)
            report = audit.run(rung, unlock, opening, mine, verified)
    if as_json:
        write_json(report.as_json())
    else:
        click.echo(report.as_text())
    return EXIT_CODES[report.verdict[0]]


class _Audit:
    """One bundle and one weight file."""

    def __init__(
        self, findings: Findings, claimed: Claimed, weights: Path, num_threads: int
    ) -> None:
        self._findings = findings
        self._claimed = claimed
        self._weights = weights
        self._num_threads = num_threads
        self._num_units = 0
        self._bytes_read = 0

    def run(
        self,
        rung: str,
        unlock: Unlock,
        opening: Path | None,
        challenge: Challenge | None,
        verified: Report | None,
    ) -> AuditReport:
        """Make the steps of a rung."""
        with open_vqf(self._weights, unlock) as file:
            file_bytes = file.preamble.file_length
            file.bulk = bulk_for(0 if rung == TEXT else file_bytes)
            identity = FileIdentity(file)
            begun_s = time.perf_counter()
            is_right = identity.model_digest == self._claimed.statement.model_digest
            if rung != A5 or not is_right:  # before a replay the loaded model is looked at
                check_model(self._findings, self._claimed, identity)
            if rung == TEXT:
                self._text(file)
            elif opening is not None:
                self._units(file, read_public(opening, MAX_OPENING_BYTES), challenge)
        if rung == A5 and is_right:
            begun_s = self._replay(unlock)
            self._bytes_read = file_bytes
        return AuditReport(
            rung,
            self._findings,
            verified,
            num_units=self._num_units,
            bytes_read=self._bytes_read,
            file_bytes=file_bytes,
            seconds=time.perf_counter() - begun_s,
        )

    def _text(self, file: VqfFile) -> None:
        from engine.audit.text import TextModel  # noqa: PLC0415

        if self._findings.passed("model"):
            check_text(self._findings, self._claimed, TextModel(file))

    def _units(self, file: VqfFile, data: bytes, challenge: Challenge | None) -> None:
        from appliance.audit.unit_steps import check_opening  # noqa: PLC0415  (takes numba)
        from engine.audit.unit_weights import PartReader  # noqa: PLC0415

        reader = PartReader(file, num_threads=self._num_threads)
        with Progress("executing", unit=_count("units")) as progress:
            found = check_opening(
                self._findings,
                self._claimed,
                data,
                challenge,
                reader,
                num_threads=self._num_threads,
                progress=progress,
            )
        self._num_units = 0 if found is None else found.count
        self._bytes_read = reader.bytes_read

    def _replay(self, unlock: Unlock) -> float:
        from appliance.audit.replay_steps import check_replay  # noqa: PLC0415  (takes numba)
        from appliance.audit.vector_steps import check_vectors  # noqa: PLC0415

        with Progress("loading") as progress:
            model = load_model(
                self._weights,
                unlock,
                self._claimed,
                num_threads=self._num_threads,
                progress=progress,
            )
        begun_s = time.perf_counter()
        with model:
            check_model(self._findings, self._claimed, model)
            check_text(self._findings, self._claimed, model)
            with Progress("replaying", unit=_count("tokens")) as progress:
                check = check_vectors if self._claimed.num_inputs else check_replay
                check(self._findings, self._claimed, model.engine, model, progress=progress)
        return begun_s


def _count(name: str) -> Callable[[int], str]:
    return lambda number: f"{number} {name}"


def _verify(data: bytes, trust: Path, need: str) -> Report:
    try:
        expected = Expectations(need=tuple(need.split(",")))
        return verify(data, read_public(trust, MAX_TRUST_BYTES), expected)
    except UsageError as error:
        raise click.UsageError(f"{trust}: {error}") from None


def _folder(named: Path | None) -> Path:
    """Return where challenges are kept; UsageError where there is no such place."""
    if named is not None:
        return named
    try:
        return default_floors().with_name("challenges")
    except click.UsageError:
        message = "there is no home directory to keep challenges in; name a folder: --challenges"
        raise click.UsageError(message) from None


def _draw(data: bytes, verified: Report | None, folder: Path, count: int, as_json: bool) -> int:
    """Draw a challenge for somebody who holds the statement and its proof, and write it once."""
    if verified is None:
        raise click.UsageError("a challenge is drawn for a verified statement: --trust is needed")
    passed = {step.number for step in verified.steps if step.result == "passed"}
    try:
        claimed = read_claimed(data)
        claimed.extent  # noqa: B018  (raises where there is nothing to draw from)
        if not passed.issuperset(_HOLDS_PROOF):
            raise OpenError("not-in-a-verified-log")
    except (FailedError, OpenError) as error:
        note(f"no challenge is drawn: {error.reason}")
        exit_code = EXIT_CODES[FAIL if isinstance(error, FailedError) else INCOMPLETE]
        if as_json:
            write_json({"drawn": False, "reason": error.reason, "exit_code": exit_code})
        return exit_code
    drawn = kept_challenge(folder, claimed)
    is_new = drawn is None
    if drawn is None:
        drawn = draw_challenge(folder, claimed, count)
    else:
        note("a challenge was drawn for this statement before; it stays the only one")
    if as_json:
        value = {"drawn": is_new, "challenge": drawn.drawn.hex(), "count": drawn.count}
        write_json(value)
    else:
        hexadecimal, units = drawn.drawn.hex(), drawn.count
        click.echo(f"windhover open BUNDLE OUT --challenge {hexadecimal} --count {units}")
    return 0
