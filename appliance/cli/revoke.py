"""`windhover revoke`: a signed list of the keys and models that are withdrawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.errors import about
from appliance.cli.inputs import read_public, read_trust
from appliance.cli.options import force_option, json_option
from appliance.cli.output import printable, write_json
from appliance.cli.secrets import SOURCES, private_keys
from appliance.cli.values import NUMBER, key_id_of, now_s, parse_digest
from crypto.atomic import AtomicFile
from crypto.floors import Floors
from crypto.revocations import (
    MAX_REVOCATIONS_BYTES,
    MAX_REVOKED,
    Revocations,
    make_revocations,
    open_revocations,
)
from crypto.signer import SoftwareSigner
from crypto.trust import TrustFile
from crypto.trust_values import RevocationRules, TrustedKey
from engine.errors import ConfigError
from engine.vqf import open_vqf, outline
from engine.vqf.format import Form

if TYPE_CHECKING:
    from crypto.signer import Signer


@click.command()
@click.argument("target", metavar="OUT", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--key", "key_path", type=click.Path(path_type=Path), required=True, metavar="FILE",
    help="Private key of role `revoke` that signs the list.",
)  # fmt: skip
@click.option(
    "--key-passphrase-file", "key_secret", metavar=SOURCES, help="Passphrase of that key."
)
@click.option(
    "--sequence", type=NUMBER, required=True, help="Number of the list, above that of the last one."
)
@click.option(
    "--revoke-key", "keys", multiple=True, metavar="KEYID|PUB.pem",
    help="Key whose signatures count no more; repeatable.",
)  # fmt: skip
@click.option(
    "--revoke-model", "models", multiple=True, metavar="DIGEST|FILE.vqf",
    help="Model that must not be loaded any more; repeatable.",
)  # fmt: skip
@click.option(
    "--add-to", "old_path", type=click.Path(path_type=Path), metavar="OLD",
    help="List whose entries stay withdrawn.",
)  # fmt: skip
@click.option(
    "--trust", "trust_path", type=click.Path(path_type=Path), metavar="FILE",
    help="Trust file that accepts OLD; by default the signing key must have signed it.",
)  # fmt: skip
@force_option
@json_option
def command(
    target: Path,
    key_path: Path,
    key_secret: str | None,
    sequence: int,
    keys: tuple[str, ...],
    models: tuple[str, ...],
    old_path: Path | None,
    trust_path: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write the signed list OUT of the keys and models that are withdrawn.

    The newest list counts alone, so it has to hold everything that is still withdrawn: --add-to
    takes over what the last one held.
    """
    if trust_path is not None and old_path is None:
        raise click.UsageError("--trust says who may have signed the list of --add-to")
    key_ids = {key_id_of(key, role=None) for key in keys}
    model_digests = {_model_digest(model) for model in models}
    now = now_s()
    with private_keys((key_path,), key_secret, role="revoke") as (key,):
        signer = SoftwareSigner(key)
        if old_path is not None:
            old = _read_old(old_path, trust_path, signer, now)
            if sequence <= old.sequence:
                raise ConfigError(f"--sequence must be above {old.sequence}, that of {old_path}")
            key_ids |= old.key_ids
            model_digests |= old.model_digests
        if signer.key_id in key_ids:
            raise ConfigError("a list cannot revoke the key that signs it")
        try:
            data = make_revocations(
                sequence=sequence,
                issued=now,
                key_ids=key_ids,
                model_digests=model_digests,
                signer=signer,
            )
        except ValueError:
            raise ConfigError(
                f"a list holds at most {MAX_REVOKED} keys and as many models"
            ) from None
        signer_id = signer.key_id
    with AtomicFile(target, force=force) as file:
        file.create()
        file.write_at(0, data)
        file.commit()
    if as_json:
        write_json(
            {
                "file": str(target),
                "sequence": sequence,
                "issued": now,
                "key_ids": sorted(key_id.hex() for key_id in key_ids),
                "model_digests": sorted(digest.hex() for digest in model_digests),
                "signer_id": signer_id.hex(),
            }
        )
        return
    click.echo(f"{printable(str(target))}: list number {sequence}")
    for key_id in sorted(key_ids):
        click.echo(f"  key           {key_id.hex()}")
    for digest in sorted(model_digests):
        click.echo(f"  model         {digest.hex()}")


def _model_digest(text: str) -> bytes:
    """Return the digest that a text is, or that of the model in the file that it names.

    Raises:
        ConfigError: the file is sealed, so that its model is not known without a key.
        OSError, FormatError: it is no file that can be opened.
    """
    digest = parse_digest(text)
    if digest is not None:
        return digest
    if outline(text).preamble.form is Form.SEALED:
        raise ConfigError(
            f"{text} is sealed; give the model digest that `windhover inspect --key` prints"
        )
    with open_vqf(text) as file:
        return file.model_digest


def _read_old(path: Path, trust_path: Path | None, signer: Signer, now: int) -> Revocations:
    """Return the list that the new one adds to.

    Raises:
        OSError, FormatError: it, or the trust file, cannot be read.
        PolicyError: it is not signed by a key that is trusted for it.
    """
    trust = _trust_in(signer) if trust_path is None else read_trust(trust_path)
    with about(path):
        return open_revocations(
            read_public(path, MAX_REVOCATIONS_BYTES), trust, floors=Floors(), now=now
        )


def _trust_in(signer: Signer) -> TrustFile:
    """Return what a trust file would say that names one key for lists of revocations."""
    key = TrustedKey("signer", "revoke", signer.public_key, None, None)
    return TrustFile(
        digest=b"",
        require_signed=True,
        require_sealed=True,
        keys={key.key_id: key},
        lines={},
        revocations=RevocationRules(required=False, minimum_sequence=0, maximum_age_s=None),
        logs={},
    )
