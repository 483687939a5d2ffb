"""`windhover log`: the log of an appliance, read again, proved, exported, and begun."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.errors import EXIT_INCOMPLETE
from appliance.cli.inputs import read_trust
from appliance.cli.options import Decorator, json_option
from appliance.cli.output import Progress, note, printable, write_json
from appliance.cli.secrets import SOURCES, private_keys
from appliance.cli.values import show_instant
from appliance.log.anchor import FileAnchor
from appliance.log.check import LogCheck
from appliance.log.create import create_log, last_head
from appliance.log.export import MAX_EXPORTED, check_export, write_export
from appliance.log.files import LogFiles
from appliance.log.layout import MAX_ENTRIES
from appliance.log.start import check_anchor
from crypto.atomic import AtomicFile
from crypto.signer import SoftwareSigner
from engine.errors import ConfigError

if TYPE_CHECKING:
    from appliance.log.objects import Head
    from crypto.sm2 import PublicKey

_PATH = click.Path(path_type=Path)
_INDEX = click.IntRange(0, MAX_ENTRIES)

_log_argument: Decorator = click.argument("folder", metavar="LOG", type=_PATH)
_archive_option: Decorator = click.option(
    "--archive", type=_PATH, metavar="DIR", help="Where closed segments may be besides."
)
_from_option: Decorator = click.option(
    "--from-size", type=_INDEX, metavar="N",
    help="Show that the log extends its tree of N entries.",
)  # fmt: skip


@click.group()
def command() -> None:
    """Read, prove, check, export and begin the log of an appliance.

    Everything but `new` only reads, also while an appliance is writing.
    """


@command.command()
@_log_argument
@_archive_option
@click.option(
    "--output", type=_PATH, metavar="FILE", help="Write the signed checkpoint there, for others."
)
@click.option("--force", is_flag=True, help="Replace FILE when it exists.")
@json_option
def head(
    folder: Path, archive: Path | None, output: Path | None, force: bool, as_json: bool
) -> None:
    """Say what the last checkpoint of LOG says; its signature is for `check` to verify."""
    files = LogFiles(folder, archive)
    if output is not None:
        with AtomicFile(output, force=force) as file:
            file.create()
            file.write_at(0, files.head.checkpoint)
            file.commit()
    value = _head_json(files.head)
    _show(folder, value | {"away": files.away}, value, as_json)


@command.command()
@_log_argument
@click.argument("index", type=_INDEX)
@_archive_option
@click.option(
    "--size", type=_INDEX, metavar="N", help="Size of the tree; by default the last checkpoint's."
)
@_from_option
@json_option
def prove(
    folder: Path,
    index: int,
    archive: Path | None,
    size: int | None,
    from_size: int | None,
    as_json: bool,
) -> None:
    """Prove that entry INDEX is in LOG, and with --from-size that LOG extends an earlier tree."""
    files = LogFiles(folder, archive)
    size = files.head.size if size is None else size
    with _indexes():
        value: dict[str, object] = {
            "log_id": files.log_id.hex(),
            "index": index,
            "size": size,
            "root": files.root(size).hex(),
            "inclusion": [node.hex() for node in files.inclusion(index, size)],
        }
        if from_size is not None:
            value["from_size"] = from_size
            value["from_root"] = files.root(from_size).hex()
            value["consistency"] = [node.hex() for node in files.consistency(from_size, size)]
    _show(folder, value, value, as_json)


@command.command()
@_log_argument
@click.argument("target", metavar="OUT", type=_PATH)
@click.option("--first", type=_INDEX, required=True, help="Index of the first entry.")
@click.option("--count", type=click.IntRange(1, MAX_EXPORTED), default=1, show_default=True)
@_archive_option
@_from_option
@json_option
def export(
    folder: Path,
    target: Path,
    first: int,
    count: int,
    archive: Path | None,
    from_size: int | None,
    as_json: bool,
) -> None:
    """Write entries of LOG into the new folder OUT, with what proves them without LOG."""
    files = LogFiles(folder, archive)
    with _indexes():
        write_export(files, target, first, count, from_size=from_size)
    value = {"folder": str(target), "first": first, "count": count} | _head_json(files.head)
    _show(target, value, value, as_json)


@command.command()
@_log_argument
@_archive_option
@click.option("--anchor", type=_PATH, metavar="FILE", help="Compare with this anchor, as a start.")
@click.option(
    "--trust", "trust_path", type=_PATH, metavar="FILE", help="Whose signatures count (`attest`)."
)
@click.option(
    "--all-signatures", is_flag=True,
    help="Verify that of every entry and checkpoint, not only of the last checkpoint.",
)  # fmt: skip
@json_option
def check(
    folder: Path,
    archive: Path | None,
    anchor: Path | None,
    trust_path: Path | None,
    all_signatures: bool,
    as_json: bool,
) -> int:
    """Read every byte of LOG again, or verify what `export` wrote; name the first bad entry.

    Incomplete (3) is what could not be read, or whose signature nobody was named for.
    """
    keys = None if trust_path is None else _attest_keys(trust_path)
    if (folder / "export.json").exists():
        return _check_export(folder, keys, as_json)
    # Before the log, which may be growing: it is never behind its anchor.
    remembered = None if anchor is None else FileAnchor(anchor).read()
    files = LogFiles(folder, archive)
    if anchor is not None:
        check_anchor(files, remembered)
    with Progress("checking", unit=str) as progress:
        found = LogCheck(files, keys=keys, all_signatures=all_signatures, progress=progress).run()
    counts = {name: getattr(found, name) for name in found.__slots__}
    missing = []
    if found.segments_away:
        missing.append(f"{found.segments_away} segments are in the archive")
    if keys is None:
        missing.append("signatures were not verified; --trust FILE says whose count")
    elif found.signatures_unchecked:
        missing.append(f"{found.signatures_unchecked} signatures are by keys that are not trusted")
    value = _head_json(files.head) | counts | {"open_admissions": _num_open(files)}
    return _finish(folder, value, missing, as_json)


@command.command()
@_log_argument
@click.option(
    "--key", "key_path", type=_PATH, required=True, metavar="FILE",
    help="Private key of role `attest` that signs the log.",
)  # fmt: skip
@click.option(
    "--key-passphrase-file", "key_secret", metavar=SOURCES, help="Passphrase of that key."
)
@click.option("--issuer", required=True, metavar="NAME", help="Whose log it is: 1..64 characters.")
@click.option(
    "--anchor", type=_PATH, required=True, metavar="FILE",
    help="Where the head is kept a second time: on another volume.",
)  # fmt: skip
@click.option("--replaces", type=_PATH, metavar="OLD", help="Log whose place it takes.")
@click.option("--archive", type=_PATH, metavar="DIR", help="Archive of OLD.")
@click.option("--reason", default="", metavar="TEXT", help="Why; at most 200 characters.")
@json_option
def new(
    folder: Path,
    key_path: Path,
    key_secret: str | None,
    issuer: str,
    anchor: Path,
    replaces: Path | None,
    archive: Path | None,
    reason: str,
    as_json: bool,
) -> None:
    """Begin the log LOG, with a random id that trust files pin.

    With --replaces its first entry names the last head that is known of OLD, which may be damaged:
    then that of the anchor. OLD stays as it is.
    """
    if (replaces is None) != (not reason):
        raise click.UsageError("--replaces and --reason go together")
    store = FileAnchor(anchor)
    old = None if replaces is None else last_head(replaces, archive, store)
    with private_keys((key_path,), key_secret, role="attest") as (key,):
        try:
            made = create_log(
                folder,
                signer=SoftwareSigner(key),
                issuer=issuer,
                anchor=store,
                replaces=old,
                reason=reason,
            )
        except ValueError:
            message = "--issuer takes 1..64, --reason at most 200 characters of printable ASCII"
            raise ConfigError(message) from None
    value = _head_json(made)
    if old is not None:
        value |= {"replaced_log_id": old.log_id.hex(), "replaced_size": old.size}
    _show(folder, value | {"anchor": str(anchor)}, value, as_json)
    if not as_json:
        click.echo(f'\n[logs.NAME]\nid = "{made.log_id.hex()}"')


@contextmanager
def _indexes() -> Iterator[None]:
    """Say of an index that is not in the log that it is a wrong argument."""
    try:
        yield
    except IndexError as error:
        raise ConfigError(str(error)) from None


def _attest_keys(path: Path) -> dict[bytes, PublicKey]:
    """Return the keys of role `attest` of a trust file."""
    keys = read_trust(path).keys
    return {key_id: key.public_key for key_id, key in keys.items() if key.role == "attest"}


def _check_export(folder: Path, keys: dict[bytes, PublicKey] | None, as_json: bool) -> int:
    found = check_export(folder, keys)
    value: dict[str, Any] = {
        "log_id": found.log_id.hex(),
        "first": found.first,
        "count": found.count,
        "size": found.size,
        "root": found.root.hex(),
        "time_ms": found.time_ms,
    }
    if found.from_size is not None and found.from_root is not None:
        value |= {"from_size": found.from_size, "from_root": found.from_root.hex()}
    said = "the signature was not verified; --trust FILE says whose counts"
    missing = [] if found.is_signed else [said]
    return _finish(folder, value, missing, as_json)


def _finish(folder: Path, value: dict[str, Any], missing: list[str], as_json: bool) -> int:
    """Print what was found, and what was not looked at; return the exit code."""
    exit_code = EXIT_INCOMPLETE if missing else 0
    _show(folder, value | {"exit_code": exit_code, "missing": missing}, value, as_json)
    for line in missing:
        note(f"incomplete: {line}")
    return exit_code


def _num_open(files: LogFiles) -> int:
    return len(files.last.growth.open_admissions)


def _head_json(made: Head) -> dict[str, Any]:
    return {
        "log_id": made.log_id.hex(),
        "size": made.size,
        "root": made.root.hex(),
        "time_ms": made.time_ms,
        "checkpoint_digest": made.digest.hex(),
    }


def _show(subject: Path, value: dict[str, Any], lines: dict[str, Any], as_json: bool) -> None:
    """Print an object, or a line for each of its values."""
    if as_json:
        write_json(value)
        return
    click.echo(printable(str(subject)))
    for name, content in lines.items():
        label = name.removesuffix("_ms").replace("_", " ")
        shown = show_instant(content // 1000) if name == "time_ms" else content
        for line in shown if isinstance(shown, list) else [str(shown)]:
            click.echo(f"  {label:<21} {printable(line)}")
            label = ""
