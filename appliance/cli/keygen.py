"""`windhover keygen`: a key pair, and the lines of the trust file that name it."""

from __future__ import annotations

import base64
import re
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.options import json_option
from appliance.cli.output import printable, write_json
from appliance.cli.secrets import SOURCES
from crypto.errors import WriteError
from crypto.keys import write_private_key, write_public_key
from crypto.secret import read_secret
from crypto.sm2 import generate
from crypto.trust_values import ROLES

if TYPE_CHECKING:
    from crypto.sm2 import PublicKey


@click.command()
@click.argument("path", metavar="OUT.pem", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--role", type=click.Choice(ROLES), required=True,
    help="The one purpose of the key: `weights` signs models, `unseal` opens sealed ones, `revoke` "
    "signs lists of what is withdrawn.",
)  # fmt: skip
@click.option("--passphrase-file", "source", metavar=SOURCES, help="Encrypt the private key.")
@click.option("--no-passphrase", is_flag=True, help="Write the private key as it is.")
@json_option
def command(path: Path, role: str, source: str | None, no_passphrase: bool, as_json: bool) -> None:
    """Make an SM2 key pair: OUT.pem, for its owner alone, and OUT.pub.pem.

    Existing files are never replaced. What is printed can be appended to a trust file as it is.
    """
    if (source is None) != no_passphrase:
        raise click.UsageError("give either --passphrase-file or --no-passphrase")
    public_path = path.with_name(f"{path.name.removesuffix('.pem')}.pub.pem")
    for target in (path, public_path):
        if target.exists() or target.is_symlink():
            raise WriteError(f"{target} exists already; a key is never replaced")
    with ExitStack() as stack:
        secret = None
        if source is not None:
            prompt = "Passphrase of the new key: "
            secret = stack.enter_context(read_secret(source, prompt=prompt, confirm=True)).value
        key = generate()
        stack.callback(key.wipe)
        write_private_key(path, key, role=role, passphrase=secret)
    try:
        write_public_key(public_path, key.public_key, role=role)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    key_id, name = key.public_key.key_id.hex(), key_name(path)
    if as_json:
        write_json(
            {
                "private_key": str(path),
                "public_key": str(public_path),
                "encrypted": source is not None,
                "role": role,
                "name": name,
                "key_id": key_id,
                "public_key_base64": _text_of(key.public_key),
            }
        )
        return
    click.echo(f"# {printable(str(public_path))}, key id {key_id}")
    click.echo(f"[keys.{name}]")
    click.echo(f'role = "{role}"')
    click.echo(f'public_key = "{_text_of(key.public_key)}"')
    click.echo()


def key_name(path: Path) -> str:
    """Return a name for the key in `path` that a trust file can have."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", path.name.removesuffix(".pem")).strip("-")
    return name[:64] or "key"


def _text_of(public_key: PublicKey) -> str:
    """Return the key as a trust file has it."""
    return base64.b64encode(public_key.spki_der()).decode("ascii")
