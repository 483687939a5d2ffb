"""`windhover sign`: put signatures on a VQF file after every byte of it was verified."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from appliance.cli.bulk import usable_cores
from appliance.cli.credentials import Credentials, unlock_options
from appliance.cli.options import json_option, weights_argument
from appliance.cli.output import Progress, printable, write_json
from appliance.cli.secrets import SOURCES, private_keys, refuse_shared_input
from appliance.cli.values import NUMBER, Instant, Version, now_s, show_instant, today
from crypto.release import LINE, MAX_LINE_CHARACTERS, MAX_SUPERSEDED, Release
from crypto.signer import SoftwareSigner
from engine.errors import ConfigError
from engine.vqf.sign import sign_vqf
from engine.vqf.signatures import MAX_SIGNATURES
from engine.vqf.verify import verify_all

if TYPE_CHECKING:
    from engine.vqf import VqfFile

_FIRST_RUNTIME: Final = (0, 1, 0)
"""The first that reads version 4 of the format."""

_T = TypeVar("_T")


@click.command()
@weights_argument
@click.option(
    "--key", "key_paths", type=click.Path(path_type=Path), multiple=True, required=True,
    metavar="FILE", help="Private key of role `weights` that signs; repeatable.",
)  # fmt: skip
@click.option(
    "--key-passphrase-file", "key_secret", metavar=SOURCES, help="Passphrase of that key."
)
@click.option("--line", required=True, help="Name of the line of models that this is a release of.")
@click.option("--release", type=NUMBER, required=True, help="Its number in the line.")
@click.option(
    "--not-before", type=Instant(), help="First second of its validity; by default today's in UTC."
)
@click.option(
    "--expires", type=Instant(),
    help="First second in which it is not valid any more; by default it does not expire.",
)  # fmt: skip
@click.option(
    "--least-runtime", type=Version(), help="Oldest runtime that may load it; by default 0.1.0."
)
@click.option(
    "--supersedes", type=NUMBER, multiple=True, metavar="N",
    help="Earlier release that is withdrawn; repeatable.",
)  # fmt: skip
@click.option(
    "--force", is_flag=True, help="Drop the signatures that the file has for another release."
)
@unlock_options(key="--unseal-key", secret="--passphrase-file")  # noqa: S106  (a name)
@json_option
def command(
    path: Path,
    key_paths: tuple[Path, ...],
    key_secret: str | None,
    line: str,
    release: int,
    force: bool,
    credentials: Credentials,
    as_json: bool,
    **dates: Any,  # noqa: ANN401  (each is typed where it arrives)
) -> None:
    """Sign the VQF file FILE as a release of a line of models.

    Every byte is verified first. The file is replaced by its signed copy; a sealed one stays
    sealed. Dates are 2027-01-31, which means its first second in UTC, or 2027-01-31T12:00:00Z.

    Signatures count together only if they say the same. So where the file has signatures of this
    release already, its dates and all else are taken from them, and an option that contradicts
    them is refused.
    """
    refuse_shared_input(key_secret, credentials.key_passphrase, credentials.passphrase)
    if len(line) > MAX_LINE_CHARACTERS or not LINE.fullmatch(line):
        raise click.UsageError(
            f"--line takes up to {MAX_LINE_CHARACTERS} characters of a-z 0-9 . _ -, and the first "
            "is a letter or digit"
        )
    superseded = tuple(sorted(set(dates.pop("supersedes")))) or None
    with (
        private_keys(key_paths, key_secret, role="weights") as keys,
        credentials.open(path) as file,
    ):
        meant = _release(file, line, release, **dates, supersedes=superseded)
        signers = [SoftwareSigner(key) for key in keys]
        present = _check_signatures(file, meant, signers, force=force)
        with Progress("verifying") as progress:
            verify_all(file, num_threads=usable_cores(), progress=progress)
        sign_vqf(file, signers, meant)
        form = "sealed" if file.seal is not None else "signed"
        key_ids = sorted(key_id.hex() for key_id in present | {s.key_id for s in signers})
    if as_json:
        write_json(
            {
                "file": str(path),
                "form": form,
                "model_digest": meant.model_digest.hex(),
                "line": meant.line,
                "release": meant.release,
                "not_before": meant.not_before,
                "expires": meant.expires,
                "least_runtime": list(meant.least_runtime),
                "supersedes": list(meant.supersedes),
                "key_ids": key_ids,
            }
        )
        return
    click.echo(f"{printable(str(path))}: release {meant.release} of line {meant.line}")
    click.echo(f"  model digest  {meant.model_digest.hex()}")
    click.echo(f"  valid from    {show_instant(meant.not_before)}")
    if meant.expires is not None:
        click.echo(f"  expires       {show_instant(meant.expires)}")
    for key_id in key_ids:
        click.echo(f"  signed by     {key_id}")


def _release(
    file: VqfFile,
    line: str,
    release: int,
    *,
    not_before: int | None,
    expires: int | None,
    least_runtime: tuple[int, int, int] | None,
    supersedes: tuple[int, ...] | None,
) -> Release:
    """Return what is to be signed: the options, or what the file's signatures say already.

    Raises:
        ConfigError: options and signatures contradict each other, or such a release cannot be.
    """
    present = {
        s.release: None
        for s in file.signatures
        if (s.release.line, s.release.release) == (line, release)
    }
    if len(present) > 1:
        raise ConfigError(
            f"the signatures of release {release} of line {line} contradict each other"
        )
    for old in present:
        return Release(
            file.model_digest,
            line,
            release,
            _same("--not-before", not_before, old.not_before),
            _same("--expires", expires, old.expires),
            _same("--least-runtime", least_runtime, old.least_runtime),
            _same("--supersedes", supersedes, old.supersedes),
        )
    new = Release(
        file.model_digest,
        line,
        release,
        today(now_s()) if not_before is None else not_before,
        expires,
        _FIRST_RUNTIME if least_runtime is None else least_runtime,
        supersedes or (),
    )
    if new.expires is not None and new.expires <= new.not_before:
        raise ConfigError("--expires must be after --not-before, which is today by default")
    if new.supersedes and (new.supersedes[-1] >= release or len(new.supersedes) > MAX_SUPERSEDED):
        raise ConfigError(f"--supersedes takes up to {MAX_SUPERSEDED} releases below --release")
    return new


def _same(option: str, given: _T | None, present: _T) -> _T:
    """Return what the signatures say, if the option does not say something else."""
    if given is not None and given != present:
        raise ConfigError(
            f"{option} contradicts the signatures that the file has for this release; leave it out "
            "to sign what they say, or give the release another number"
        )
    return present


def _check_signatures(
    file: VqfFile, meant: Release, signers: list[SoftwareSigner], *, force: bool
) -> set[bytes]:
    """Refuse what would drop signatures unasked, and more signatures than fit.

    Returns:
        The key ids of those who have signed the same before.

    Raises:
        ConfigError: it would.
    """
    others = [s.release.release for s in file.signatures if s.release.line == meant.line]
    dropped = sorted({number for number in others if number != meant.release})
    if dropped and not force:
        raise ConfigError(
            f"the file is release {dropped[0]} of line {meant.line}; --force drops those signatures"
        )
    kept = sum(s.release == meant or s.release.line != meant.line for s in file.signatures)
    present = {s.sign1.key_id for s in file.signatures if s.release == meant}
    added = {signer.key_id for signer in signers} - present
    if kept + len(added) > MAX_SIGNATURES:
        raise ConfigError(f"a file has at most {MAX_SIGNATURES} signatures")
    return present
