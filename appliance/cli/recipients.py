"""Whom a file is sealed for, on the command line and in what is printed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.secrets import SOURCES, passphrase
from crypto.keys import load_public_key
from engine.vqf.recipients import PassphraseRecipient
from engine.vqf.wrap import SealFor

if TYPE_CHECKING:
    from engine.vqf.recipients import Recipients


def recipient_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that name all recipients of a file: `to` and `new_secret`."""
    secret = click.option(
        "--passphrase-file", "new_secret", metavar=SOURCES,
        help="Seal under this passphrase instead.",
    )  # fmt: skip
    keys = click.option(
        "--to", type=click.Path(path_type=Path), multiple=True, metavar="PUB.pem",
        help="Public key of role `unseal` of a recipient; repeatable.",
    )  # fmt: skip
    return keys(secret(function))


@contextmanager
def named_recipients(to: Sequence[Path], new_secret: str | None) -> Iterator[SealFor]:
    """Give the recipients that the options name.

    Raises:
        UsageError: there are keys and a passphrase, or neither.
        KeyFileError: one of the files cannot be used.
    """
    if bool(to) == (new_secret is not None):
        raise click.UsageError("give either --to or --passphrase-file")
    keys = tuple(load_public_key(path, role="unseal") for path in to)
    with passphrase(new_secret, what="the sealed weights", confirm=True) as secret:
        yield SealFor(keys, secret)


def recipients_as_json(recipients: Recipients) -> dict[str, object]:
    """Return what anybody may know about recipients."""
    if isinstance(recipients, PassphraseRecipient):
        return {"passphrase": {"iterations": recipients.iterations}}
    return {"key_ids": [recipient.key_id.hex() for recipient in recipients]}


def recipient_lines(recipients: Recipients) -> list[tuple[str, str]]:
    """Return the same as labels and texts."""
    if isinstance(recipients, PassphraseRecipient):
        return [("sealed under", f"a passphrase ({recipients.iterations:,} iterations)")]
    return [("sealed for", recipient.key_id.hex()) for recipient in recipients]
