"""`windhover seal`: an encrypted copy of a VQF file, for some recipients."""

from __future__ import annotations

from pathlib import Path

import click

from appliance.cli.bulk import usable_cores
from appliance.cli.credentials import Credentials, unlock_options
from appliance.cli.options import force_option, json_option
from appliance.cli.output import Progress, format_bytes, note, printable, write_json
from appliance.cli.recipients import (
    named_recipients,
    recipient_lines,
    recipient_options,
    recipients_as_json,
)
from appliance.cli.secrets import refuse_shared_input
from engine.vqf import outline
from engine.vqf.seal import seal_vqf


@click.command()
@click.argument("source", metavar="IN.vqf", type=click.Path(path_type=Path))
@click.argument("target", metavar="OUT.vqf", type=click.Path(path_type=Path, dir_okay=False))
@recipient_options
@unlock_options(key="--key", secret="--old-passphrase-file")  # noqa: S106  (a name)
@force_option
@json_option
def command(
    source: Path,
    target: Path,
    to: tuple[Path, ...],
    new_secret: str | None,
    credentials: Credentials,
    force: bool,
    as_json: bool,
) -> None:
    """Encrypt the VQF file IN.vqf as OUT.vqf, under a data key of its own.

    Every byte is verified on the way, and signatures go along, encrypted. A sealed IN.vqf is opened
    with --key or --old-passphrase-file. The recipients can open OUT.vqf with their private keys, or
    with the passphrase; who made it, only the signatures say.
    """
    refuse_shared_input(new_secret, credentials.key_passphrase, credentials.passphrase)
    with named_recipients(to, new_secret) as recipients, credentials.open(source) as file:
        with Progress("sealing") as progress:
            seal_vqf(
                file,
                target,
                recipients,
                force=force,
                num_threads=usable_cores(),
                progress=progress,
            )
        num_signatures, digest_hex = len(file.signatures), file.model_digest.hex()
    made = outline(target)
    if not num_signatures:
        note(f"{target} is sealed and not signed: nobody vouches for it")
    size_bytes = made.preamble.file_length
    if as_json:
        write_json(
            {
                "file": str(target),
                "model_digest": digest_hex,
                "size_bytes": size_bytes,
                "file_id": made.preamble.identity.hex(),
                "num_signatures": num_signatures,
                "recipients": recipients_as_json(made.recipients),
            }
        )
        return
    click.echo(f"{printable(str(target))}: sealed, {format_bytes(size_bytes)}")
    click.echo(f"  model digest  {digest_hex}")
    for label, text in recipient_lines(made.recipients):
        click.echo(f"  {label:<13} {text}")
