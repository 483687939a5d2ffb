"""Opening sealed files: where the keys or the passphrase are that open them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from appliance.cli.bulk import bulk_for
from appliance.cli.errors import about
from appliance.cli.options import Decorator, with_options
from appliance.cli.secrets import SOURCES, passphrase, private_keys, refuse_shared_input
from crypto.errors import KeyFileError
from crypto.signer import SoftwareUnwrapper
from engine.vqf import open_vqf
from engine.vqf.unlock import Unlock

if TYPE_CHECKING:
    from engine.vqf import VqfFile


class Credentials(NamedTuple):
    """Where the keys or the passphrase are that open a sealed file."""

    keys: tuple[Path, ...] = ()
    key_passphrase: str | None = None
    passphrase: str | None = None

    @property
    def given(self) -> bool:
        """Whether there is anything to open a file with."""
        return bool(self.keys) or self.passphrase is not None

    @contextmanager
    def unlock(self) -> Iterator[Unlock]:
        """Read the secrets; the keys are wiped at the end.

        Raises:
            KeyFileError: as `private_keys` and `passphrase`.
        """
        refuse_shared_input(self.key_passphrase, self.passphrase)
        with (
            passphrase(self.passphrase, what="the weights") as secret,
            private_keys(self.keys, self.key_passphrase, role="unseal") as keys,
        ):
            yield Unlock(tuple(map(SoftwareUnwrapper, keys)), secret)

    @contextmanager
    def open(self, path: Path) -> Iterator[VqfFile]:
        """Open a VQF file of any form.

        Raises:
            OSError, FormatError, KeyFileError, WeightsError, WeightsUncheckedError: as `open_vqf`.
        """
        with self.unlock() as unlock:
            with about(path, errors=KeyFileError):
                file = open_vqf(path, unlock)
            with file:
                file.bulk = bulk_for(file.preamble.file_length)
                yield file


def unlock_options(*, key: str, secret: str) -> Decorator:
    """Return the options that open a sealed file; they arrive as `credentials`.

    Args:
        key: what the option of a private key is called.
        secret: what the option of the weights' passphrase is called.
    """
    options = (
        click.option(
            key, "keys", type=click.Path(path_type=Path), multiple=True, metavar="FILE",
            help="Private key of role `unseal` that the weights are sealed for; repeatable.",
        ),
        click.option(
            f"{key}-passphrase-file", "key_passphrase", metavar=SOURCES,
            help="Passphrase of that key.",
        ),
        click.option(
            secret, "weights_passphrase", metavar=SOURCES,
            help="Passphrase that the weights are sealed under.",
        ),
    )  # fmt: skip

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def command(
            *,
            keys: tuple[Path, ...],
            key_passphrase: str | None,
            weights_passphrase: str | None,
            **others: object,
        ) -> object:
            credentials = Credentials(keys, key_passphrase, weights_passphrase)
            return function(credentials=credentials, **others)

        return with_options(command, options)

    return decorate
