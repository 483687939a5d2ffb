"""`windhover rewrap`: change who can open a sealed file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.bulk import usable_cores
from appliance.cli.credentials import Credentials, unlock_options
from appliance.cli.options import json_option, weights_argument
from appliance.cli.output import Progress, note, printable, write_json
from appliance.cli.recipients import (
    named_recipients,
    recipient_lines,
    recipient_options,
    recipients_as_json,
)
from appliance.cli.secrets import refuse_shared_input
from appliance.cli.values import key_id_of
from crypto.keys import load_public_key
from engine.errors import UnsupportedError
from engine.vqf import outline
from engine.vqf.recipients import PassphraseRecipient
from engine.vqf.rewrap import rewrap_vqf
from engine.vqf.seal import seal_vqf

if TYPE_CHECKING:
    from engine.vqf import VqfFile
    from engine.vqf.recipients import Recipients
    from engine.vqf.wrap import SealFor


@click.command()
@weights_argument
@recipient_options
@click.option(
    "--add", type=click.Path(path_type=Path), multiple=True, metavar="PUB.pem",
    help="Public key of a recipient to add; repeatable.",
)  # fmt: skip
@click.option(
    "--remove", multiple=True, metavar="KEYID|PUB.pem", help="Recipient to remove; repeatable."
)
@click.option(
    "--new-key", is_flag=True,
    help="Encrypt everything again under a new data key; needs all recipients by name.",
)  # fmt: skip
@unlock_options(key="--key", secret="--old-passphrase-file")  # noqa: S106  (a name)
@json_option
def command(
    path: Path,
    to: tuple[Path, ...],
    new_secret: str | None,
    add: tuple[Path, ...],
    remove: tuple[str, ...],
    new_key: bool,
    credentials: Credentials,
    as_json: bool,
) -> None:
    """Change who can open the sealed VQF file FILE; open it with --key or --old-passphrase-file.

    Either name all recipients that it is to have (--to, or --passphrase-file for a new passphrase),
    or those to --add and to --remove. The data are not touched, so somebody who was removed may
    have kept the data key, which still opens the file; --new-key encrypts them again.
    """
    refuse_shared_input(new_secret, credentials.key_passphrase, credentials.passphrase)
    named, changed = bool(to) or new_secret is not None, bool(add) or bool(remove)
    if named == changed:
        raise click.UsageError(
            "give either all recipients (--to or --passphrase-file) or those to --add and --remove"
        )
    if new_key and changed:
        raise click.UsageError(
            "--new-key needs all recipients (--to or --passphrase-file): the file has their key "
            "ids, but not their keys"
        )
    before = outline(path).recipients
    if changed:
        added = [load_public_key(key, role="unseal") for key in add]
        removed = [key_id_of(key, role="unseal") for key in remove]
        with credentials.open(path) as file:
            rewrap_vqf(file, add=added, remove=removed)
    else:
        with named_recipients(to, new_secret) as recipients, credentials.open(path) as file:
            _replace(file, recipients, new_key=new_key)
    after = outline(path).recipients
    gone = _gone(before, after)
    if gone:
        note(
            "whoever could open the file before may have kept a copy of it"
            if new_key
            else "whoever was removed may have kept the data key, which still opens this file; "
            "--new-key encrypts it again"
        )
    if as_json:
        write_json(
            {
                "file": str(path),
                "recipients": recipients_as_json(after),
                "removed": gone,
                "new_key": new_key,
            }
        )
        return
    click.echo(f"{printable(str(path))}: {'encrypted again' if new_key else 'wrapped again'}")
    for label, text in recipient_lines(after):
        click.echo(f"  {label:<13} {text}")


def _replace(file: VqfFile, recipients: SealFor, *, new_key: bool) -> None:
    """Give a file other recipients, or other recipients and another data key."""
    if not new_key:
        rewrap_vqf(file, recipients=recipients)
        return
    if file.seal is None:
        raise UnsupportedError(f"{file.path} is not sealed; `windhover seal` makes a sealed copy")
    with Progress("sealing") as progress:
        seal_vqf(
            file,
            file.path,
            recipients,
            force=True,
            num_threads=usable_cores(),
            progress=progress,
        )


def _gone(before: Recipients, after: Recipients) -> list[str]:
    """Return who cannot open the file any more: key ids, or `passphrase`."""
    if isinstance(before, PassphraseRecipient):
        return ["passphrase"]
    stay = set()
    if not isinstance(after, PassphraseRecipient):
        stay = {recipient.key_id for recipient in after}
    return [recipient.key_id.hex() for recipient in before if recipient.key_id not in stay]
