"""Passphrases and private keys while a command needs them: read late, wiped at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crypto.keys import load_private_key
from crypto.secret import STANDARD_INPUT, Secret, read_secret

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from crypto.sm2 import PrivateKey

SOURCES = "FILE|-|credential:NAME"
"""What an option takes that names where a secret is."""


@contextmanager
def passphrase(
    source: str | None, *, what: str, confirm: bool = False
) -> Iterator[memoryview | None]:
    """Give the passphrase that `source` names, or None where there is no source.

    Args:
        source: as `read_secret` takes it.
        what: what it opens, for the question at a terminal.
        confirm: whether it is new, so that it is asked for twice.

    Raises:
        KeyFileError: as `read_secret`.

    Security: the buffer is wiped at the end.
    """
    if source is None:
        yield None
        return
    with read_secret(source, prompt=f"Passphrase of {what}: ", confirm=confirm) as secret:
        yield secret.value


@contextmanager
def private_keys(
    paths: Sequence[Path], source: str | None, *, role: str
) -> Iterator[tuple[PrivateKey, ...]]:
    """Give the private keys in files, and wipe them at the end.

    Args:
        paths: the files.
        source: where the passphrase is that those of them are encrypted under which are encrypted;
            it is read when the first one needs it, and once.
        role: what the keys are wanted for.

    Raises:
        KeyFileError: as `load_private_key` and `read_secret`.
    """
    with ExitStack() as stack:

        @cache
        def ask(from_where: str) -> Secret:
            prompt = f"Passphrase of the {role} key: "
            return stack.enter_context(read_secret(from_where, prompt=prompt))

        wanted: Callable[[], ReadableBuffer] | None = None
        if source is not None:
            where = source

            def wanted() -> ReadableBuffer:
                return ask(where).value

        keys = []
        for path in paths:
            key = load_private_key(path, passphrase=wanted, role=role)
            stack.callback(key.wipe)
            keys.append(key)
        yield tuple(keys)


def refuse_shared_input(*sources: str | None) -> None:
    """Refuse a command line on which standard input is to give more than one secret."""
    if sources.count(STANDARD_INPUT) > 1:
        raise click.UsageError("only one secret can come from standard input")
