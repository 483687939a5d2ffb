"""Options of commands whose answers leave with a statement: key, log, anchor, bundle, nonce."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from appliance.cli.options import with_options
from appliance.cli.secrets import SOURCES
from crypto.cose import decode_sign1
from crypto.evidence import MAX_OBJECT_BYTES
from crypto.statement import decode_statement
from engine.errors import ConfigError

if TYPE_CHECKING:
    from appliance.bundle import Bundle

_PATH: Final = click.Path(path_type=Path)
_NONCE: Final = re.compile(r"(?:[0-9a-fA-F]{2}){16,64}")
_TOGETHER: Final = "--attest-key, --log and --anchor go together, and --bundle, --nonce with them"


class Attestation(NamedTuple):
    """Where statements go: key, log and anchor, or nothing at all."""

    key: Path | None = None
    key_passphrase: str | None = None
    log: Path | None = None
    anchor: Path | None = None
    bundle: Path | None = None
    nonce: str | None = None

    @property
    def is_wanted(self) -> bool:
        """Whether answers are attested.

        Raises:
            UsageError: some of the options are there that only go together.
        """
        together = (self.key, self.log, self.anchor)
        if all(together):
            return True
        if any(together) or any((self.key_passphrase, self.bundle, self.nonce)):
            raise click.UsageError(_TOGETHER)
        return False

    @property
    def paths(self) -> tuple[Path, Path, Path]:
        """Key, log and anchor.

        Raises:
            UsageError: as `is_wanted`, and where nothing is attested.
        """
        if self.key is None or self.log is None or self.anchor is None:
            raise click.UsageError(_TOGETHER)
        return self.key, self.log, self.anchor

    def nonce_bytes(self) -> bytes | None:
        """Return the client's nonce.

        Raises:
            ConfigError: it is no hexadecimal number of 16 .. 64 bytes.
        """
        if self.nonce is None:
            return None
        if _NONCE.fullmatch(self.nonce) is None:
            raise ConfigError("--nonce takes 32 .. 128 hexadecimal digits, two for each byte")
        return bytes.fromhex(self.nonce)

    def as_json(self, bundle: Bundle) -> dict[str, object]:
        """Return what `--json` prints of an attested answer."""
        signed = decode_sign1(bundle.statement, max_bytes=MAX_OBJECT_BYTES)
        statement = decode_statement(signed.payload)
        return {
            "log_id": statement.log_id.hex(),
            "sequence": statement.sequence,
            "admission": statement.admission,
            "signer": signed.key_id.hex(),
            "seed_source": statement.seed_source,
            "bundle": None if self.bundle is None else str(self.bundle),
        }


def attest_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that ask for statements; they arrive as `attestation`."""
    options = (
        click.option(
            "--attest-key", type=_PATH, metavar="FILE",
            help="Private key of role `attest`: sign a statement about the answer.",
        ),
        click.option(
            "--attest-key-passphrase-file", "attest_secret", metavar=SOURCES,
            help="Passphrase of that key.",
        ),
        click.option(
            "--log", "log_folder", type=_PATH, metavar="DIR",
            help="The log that the statement is appended to; `windhover log new` makes one.",
        ),
        click.option(
            "--anchor", type=_PATH, metavar="FILE", help="Where the log's head is kept besides."
        ),
        click.option(
            "--bundle", type=_PATH, metavar="OUT",
            help="Write what an auditor needs: statement, proofs, texts and salts.",
        ),
        click.option(
            "--nonce", metavar="HEX",
            help="The client's nonce, 32 .. 128 digits; without --seed the seed follows from it.",
        ),
    )  # fmt: skip

    @wraps(function)
    def command(
        *,
        attest_key: Path | None,
        attest_secret: str | None,
        log_folder: Path | None,
        anchor: Path | None,
        bundle: Path | None,
        nonce: str | None,
        **others: object,
    ) -> object:
        attestation = Attestation(attest_key, attest_secret, log_folder, anchor, bundle, nonce)
        return function(attestation=attestation, **others)

    return with_options(command, options)
