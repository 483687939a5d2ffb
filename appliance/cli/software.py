"""`windhover software`: the list of the files of a release, its signature, and the comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from appliance.cli.errors import EXIT_BAD, about, describe
from appliance.cli.inputs import read_public, read_trust
from appliance.cli.options import force_option, json_option
from appliance.cli.output import format_bytes, note, printable, write_json
from appliance.cli.secrets import SOURCES, private_keys
from appliance.cli.values import Version, now_s
from appliance.facts import NUMERICS
from appliance.software import list_digest, software_files
from appliance.software_compare import Differences, compare, read_list_of
from appliance.software_list import (
    MAX_LIST_BYTES,
    encode_list,
    kernels_of,
    list_file_digest,
    parse_list,
)
from appliance.software_manifest import describe_manifest, read_manifest
from crypto.atomic import AtomicFile
from crypto.errors import CryptoError, PolicyError
from crypto.release import LINE, MAX_LINE_CHARACTERS
from crypto.signer import SoftwareSigner
from crypto.software import SoftwareManifest, sign_manifest
from engine.errors import ConfigError

_PATH: Final = click.Path(path_type=Path)

_kernels_option = click.option(
    "--kernels", type=_PATH, metavar="DIR",
    help="The folder of prepared kernels, as model.kernel_cache names it.",
)  # fmt: skip
_list_argument = click.argument("list_path", metavar="LIST", type=_PATH)


@click.group()
def command() -> None:
    """Say which files the software is made of, sign that, and compare.

    The files are those of the program that is asked: its packages, those of its environment, the
    interpreter, libcrypto, and the prepared kernels.
    """


@command.command("list")
@_kernels_option
@click.option("--out", type=_PATH, required=True, metavar="LIST", help="Where the list goes.")
@force_option
@json_option
def list_(kernels: Path | None, out: Path, force: bool, as_json: bool) -> None:
    """Write the list of the files of this machine's software.

    The list itself must lie outside of them, and no file may change any more: set
    PYTHONDONTWRITEBYTECODE where the interpreter could still write.
    """
    files = software_files(kernels=_folder(kernels))
    data = encode_list(files)
    _write(out, data, force=force)
    _show(
        out,
        {
            "software_digest": list_digest(list(files)).hex(),
            "files": len(files),
            "bytes": sum(file.length_bytes for file in files),
            "list_digest": list_file_digest(data).hex(),
            "kernels": list(kernels_of(files)),
        },
        as_json=as_json,
    )


@command.command()
@_list_argument
@click.argument("target", metavar="OUT", type=_PATH)
@click.option(
    "--key", "key_path", type=_PATH, required=True, metavar="FILE",
    help="Private key of role `software` that signs.",
)  # fmt: skip
@click.option(
    "--key-passphrase-file", "--passphrase-file", "key_secret", metavar=SOURCES,
    help="Passphrase of that key.",
)  # fmt: skip
@click.option("--version", type=Version(), required=True, help="Version of the release.")
@click.option("--product", default="windhover", metavar="NAME", help="By default windhover.")
@force_option
@json_option
def sign(
    list_path: Path,
    target: Path,
    key_path: Path,
    key_secret: str | None,
    version: tuple[int, int, int],
    product: str,
    force: bool,
    as_json: bool,
) -> None:
    """Sign the list LIST as a release; OUT is the manifest.

    Who signs vouches for every file in LIST: make it from a build of your own.
    """
    if len(product) > MAX_LINE_CHARACTERS or not LINE.fullmatch(product):
        raise click.UsageError("--product takes 1..64 characters of a-z 0-9 . _ -")
    data = read_public(list_path, MAX_LIST_BYTES)
    with about(list_path):
        files = parse_list(data)
    try:
        manifest = SoftwareManifest(
            product=product,
            version=version,
            software_digest=list_digest(list(files)),
            num_files=len(files),
            num_bytes=sum(file.length_bytes for file in files),
            list_digest=list_file_digest(data),
            kernels=kernels_of(files),
            numerics=(NUMERICS,),
            issued=now_s(),
        )
        manifest.encode()
    except ValueError as error:
        raise ConfigError(f"{list_path}: {error}") from None
    with private_keys((key_path,), key_secret, role="software") as (key,):
        signer = SoftwareSigner(key)
        signed = sign_manifest(manifest, signer)
        key_id = signer.key_id
    _write(target, signed, force=force)
    _show(target, describe_manifest(manifest) | {"key_id": key_id.hex()}, as_json=as_json)


@command.command()
@click.argument("list_path", metavar="[LIST]", type=_PATH, required=False)
@click.option(
    "--manifest", "manifest_path", type=_PATH, required=True, metavar="FILE", help="What is signed."
)
@click.option(
    "--trust", "trust_path", type=_PATH, required=True, metavar="FILE",
    help="Trust file that names the `software` key.",
)  # fmt: skip
@click.option(
    "--revocations", "revocations_path", type=_PATH, metavar="FILE",
    help="Signed list of what is withdrawn.",
)  # fmt: skip
@_kernels_option
@json_option
def check(
    list_path: Path | None,
    manifest_path: Path,
    trust_path: Path,
    revocations_path: Path | None,
    kernels: Path | None,
    as_json: bool,
) -> int:
    """Compare the files of this machine's software with a signed manifest.

    With LIST, the list that was signed, every file that differs is named.
    """
    found = read_manifest(manifest_path, read_trust(trust_path), revocations=revocations_path)
    manifest = found.manifest
    listed = None
    if list_path is not None:
        with about(list_path, errors=CryptoError):
            listed = read_list_of(manifest, read_public(list_path, MAX_LIST_BYTES))
    files = software_files(kernels=_folder(kernels))
    value = {"release": manifest.name, "signed_by": found.key_name} | describe_manifest(manifest)
    try:
        manifest.check(list_digest(list(files)))
    except PolicyError as error:
        if listed is None:
            raise
        differences = compare(listed, files)
        failure = describe(error)
        if as_json:
            write_json(value | failure.as_json() | {"differences": differences._asdict()})
        else:
            _show_differences(differences)
        note(failure.message)
        return EXIT_BAD
    _show(manifest_path, value | {"same": True}, as_json=as_json)
    return 0


def _folder(kernels: Path | None) -> Path | None:
    """Return the folder of kernels, which must be there."""
    if kernels is not None and not kernels.is_dir():
        raise ConfigError(f"{kernels}: there is no such folder")
    return kernels


def _write(target: Path, data: bytes, *, force: bool) -> None:
    with AtomicFile(target, force=force) as file:
        file.create()
        file.write_at(0, data)
        file.commit()


def _show(subject: Path, value: dict[str, Any], *, as_json: bool) -> None:
    """Print an object, or a line for each of its values."""
    if as_json:
        write_json({"file": str(subject)} | value)
        return
    click.echo(printable(str(subject)))
    for name, content in value.items():
        shown = ", ".join(content) if isinstance(content, list) else str(content)
        if name == "bytes":
            shown = format_bytes(content)
        click.echo(f"  {name.replace('_', ' '):<17} {printable(shown) or 'none'}")


def _show_differences(differences: Differences) -> None:
    """Print one line for each file that differs."""
    for kind, paths in differences._asdict().items():
        for path in paths:
            click.echo(f"{kind:<8} {printable(path)}")
