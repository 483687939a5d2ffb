"""`windhover apikey`: keys for clients of the service, made, listed and withdrawn."""

from __future__ import annotations

import base64
import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import click

from appliance.cli.options import json_option
from appliance.cli.output import printable, write_json
from appliance.cli.values import Instant, now_s, show_instant
from appliance.service.key_file import KeyEntry, new_id, new_key, read_keys, write_keys
from appliance.service.principals import LIMIT_NAMES, PRINCIPAL_BYTES, SCOPES, KeyLimits
from crypto.atomic import AtomicFile
from crypto.errors import WriteError
from engine.errors import ConfigError

DEFAULT_SCOPES: Final = ("generate", "embeddings", "models", "attestations", "log")

_PATH: Final = click.Path(path_type=Path)
_FINGERPRINT: Final = re.compile(r"(?:[0-9a-f]{2}:?){31}[0-9a-f]{2}")
_PEM: Final = re.compile("-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\\s]+)-----END CERTIFICATE-----")

_keys_argument = click.argument("path", metavar="KEYS", type=_PATH)


@click.group()
def command() -> None:
    """Make, list and withdraw the keys with which clients ask the service.

    KEYS is the file that the configuration names; a running service sees a change within a second.
    """


@command.command()
@_keys_argument
@click.option("--name", metavar="NAME", help="For the operator: 1..64 characters.")
@click.option(
    "--scope", "scopes", type=click.Choice(SCOPES), multiple=True,
    help=f"What it may do; repeatable. By default {', '.join(DEFAULT_SCOPES)}.",
)  # fmt: skip
@click.option("--expires", type=Instant(), metavar="DATE", help="When it ends.")
@click.option("--shared", is_flag=True, help="Several people stand behind it, as behind a gateway.")
@click.option(
    "--limit", "limits", type=(click.Choice(LIMIT_NAMES), click.IntRange(0, 1 << 31)),
    multiple=True, metavar="LIMIT N", help=f"0 for none; repeatable: {', '.join(LIMIT_NAMES)}.",
)  # fmt: skip
@click.option(
    "--rotate", metavar="ID",
    help="Take principal, name, scopes and limits from this key, which goes on until revoked.",
)  # fmt: skip
@click.option(
    "--certificate", metavar="FILE|SHA256",
    help="Let a client certificate in instead: its PEM file, or its fingerprint.",
)  # fmt: skip
@click.option("--out", type=_PATH, metavar="FILE", help="Write the key there, for its owner alone.")
@json_option
def new(
    path: Path,
    name: str | None,
    scopes: tuple[str, ...],
    expires: int | None,
    shared: bool,
    limits: tuple[tuple[str, int], ...],
    rotate: str | None,
    certificate: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Make a key; it is shown this once, only a hash of it is kept.

    KEYS is made if it does not exist.
    """
    if (name is None) == (rotate is None):
        raise click.UsageError("give either --name or --rotate")
    if rotate is not None and (scopes or shared or limits):
        raise click.UsageError("--rotate takes scopes and limits from the older key")
    if certificate is not None and out is not None:
        raise click.UsageError("a certificate has no key that --out could take")
    if out is not None and (out.exists() or out.is_symlink()):
        raise WriteError(f"{out} exists already; a key is never replaced")
    with _changing(path) as entries:
        facts: dict[str, Any] = {"created_s": now_s(), "expires_s": expires}
        if rotate is None:
            facts |= {
                "principal": secrets.token_bytes(PRINCIPAL_BYTES),
                "name": name,
                "scopes": tuple(dict.fromkeys(scopes)) or DEFAULT_SCOPES,
                "shared": shared,
                "limits": KeyLimits(**dict(limits)),
            }
        else:
            old = entries[_place(entries, rotate, path)]
            same = ("principal", "name", "scopes", "shared", "limits")
            facts |= {field: getattr(old, field) for field in same}
        text = None
        if certificate is None:
            entry, text = new_key(**facts)
        else:
            entry = KeyEntry(id=new_id(), salt=b"", digest=_fingerprint(certificate), **facts)
        entries.append(entry)
        if out is not None and text is not None:
            # Before the list: a key that nobody has is no harm, a listed one that is lost is.
            _write_secret(out, text)
    value = _shown(entry)
    if as_json:
        write_json(value | {"key": text if out is None else None, "out": out and str(out)})
        return
    _print(entry)
    if text is not None:
        click.echo(text if out is None else f"the key is in {printable(str(out))}")


@command.command("list")
@_keys_argument
@json_option
def list_(path: Path, as_json: bool) -> None:
    """List the keys of KEYS: ids, principals and names, nothing that is secret."""
    entries = read_keys(path)
    if as_json:
        write_json({"keys": [_shown(entry) for entry in entries]})
        return
    for entry in entries:
        _print(entry)


@command.command()
@_keys_argument
@click.argument("key_id", metavar="ID")
@json_option
def revoke(path: Path, key_id: str, as_json: bool) -> None:
    """Withdraw the key ID; its entry stays, so that the log of the past can be read."""
    with _changing(path) as entries:
        place = _place(entries, key_id, path)
        if entries[place].revoked_s is None:
            entries[place] = replace(entries[place], revoked_s=now_s())
        entry = entries[place]
    if as_json:
        write_json(_shown(entry))
    else:
        _print(entry)


@contextmanager
def _changing(path: Path) -> Iterator[list[KeyEntry]]:
    """Give the entries to be changed, and write them; others wait meanwhile."""
    # The list itself is replaced, so the lock is on its folder.
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        exists = path.exists() or path.is_symlink()
        entries = list(read_keys(path)) if exists else []
        yield entries
        write_keys(path, tuple(entries), force=exists)
    finally:
        os.close(folder)


def _place(entries: list[KeyEntry], key_id: str, path: Path) -> int:
    for place, entry in enumerate(entries):
        if entry.id == key_id:
            return place
    raise ConfigError(f"{path}: there is no key {key_id}")


def _fingerprint(text: str) -> bytes:
    """Return the SHA-256 of a certificate, given as such or as a PEM file."""
    digits = text.lower().removeprefix("sha256:")
    if _FINGERPRINT.fullmatch(digits):
        return bytes.fromhex(digits.replace(":", ""))
    match = _PEM.search(Path(text).read_text("ascii", errors="replace"))
    if match is None:
        raise ConfigError(f"{text}: no certificate in PEM, and no SHA-256 fingerprint")
    try:
        return sha256(base64.b64decode("".join(match[1].split()), validate=True)).digest()
    except ValueError:
        raise ConfigError(f"{text}: no certificate in PEM") from None


def _write_secret(path: Path, text: str) -> None:
    with AtomicFile(path, force=False, mode=0o600) as file:
        file.create()
        file.write_at(0, text.encode("ascii") + b"\n")
        file.commit()


def _shown(entry: KeyEntry) -> dict[str, Any]:
    value = entry.as_json()
    value.pop("salt", None)
    digest = value.pop("digest")
    if entry.is_certificate:
        value["certificate_sha256"] = digest
    return value | {"state": entry.state(now_s())}


def _print(entry: KeyEntry) -> None:
    kind = "certificate" if entry.is_certificate else "key"
    until = "" if entry.expires_s is None else f", until {show_instant(entry.expires_s)}"
    shared = ", shared" if entry.shared else ""
    click.echo(
        f"{kind} {entry.id}  {entry.state(now_s())}  {printable(entry.name)}  "
        f"principal {entry.principal.hex()}{shared}{until}"
    )
    click.echo(f"  may {', '.join(entry.scopes)}")
