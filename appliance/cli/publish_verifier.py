"""`windhover publish-verifier`: what an auditor is given, and whose it is."""

from __future__ import annotations

from pathlib import Path

import click

import verifier
from appliance.cli.options import force_option, json_option
from appliance.cli.output import printable, write_json
from appliance.cli.secrets import SOURCES, private_keys
from crypto.atomic import AtomicFile
from crypto.signer import SoftwareSigner, checked_sign
from crypto.sm2 import signature_to_der
from crypto.sm3 import sm3
from verifier.build_pyz import build

_PROGRAM = "verifier.pyz"
_COPIES = ("verify.html", "SPEC.md")


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--key", "key_path", type=click.Path(path_type=Path), required=True, metavar="FILE",
    help="Private key of role `software` that signs.",
)  # fmt: skip
@click.option(
    "--key-passphrase-file", "key_secret", metavar=SOURCES, help="Passphrase of that key."
)
@force_option
@json_option
def command(
    folder: Path, key_path: Path, key_secret: str | None, force: bool, as_json: bool
) -> None:
    """Write the verifier, its page and its specification to DIR, each with a signature beside it.

    verifier.pyz has the same bytes wherever it is made. A signature is SM2 over SM3 with the
    default ID, in DER: `openssl pkeyutl -verify -rawin -digest sm3` checks it with the option
    `-pkeyopt distid:1234567812345678`.
    """
    source = Path(verifier.__file__).parent
    files = {_PROGRAM: build(), **{name: (source / name).read_bytes() for name in _COPIES}}
    with private_keys([key_path], key_secret, role="software") as (key,):
        signer = SoftwareSigner(key)
        key_id = signer.key_id
        signed = {
            f"{name}.sig": signature_to_der(checked_sign(signer, data))
            for name, data in files.items()
        }
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in (files | signed).items():
        with AtomicFile(folder / name, force=force) as file:
            file.create()
            file.write_at(0, data)
            file.commit()
    digests = {name: sm3(data).hex() for name, data in files.items()}
    if as_json:
        write_json({"folder": str(folder), "key_id": key_id.hex(), "sm3": digests})
        return
    for name, digest in digests.items():
        click.echo(f"{printable(str(folder / name))}  SM3 {digest}")
    click.echo(f"signed by {key_id.hex()}")
