"""`windhover trust`: read a trust file, and say in plain words what it lets pass."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.inputs import read_trust
from appliance.cli.options import json_option
from appliance.cli.output import printable, write_json
from appliance.cli.values import DAY_S, show_instant

if TYPE_CHECKING:
    from crypto.trust import TrustFile
    from crypto.trust_values import RevocationRules, TrustedKey


@click.command()
@click.argument("path", metavar="TRUST.toml", type=click.Path(path_type=Path))
@json_option
def command(path: Path, as_json: bool) -> None:
    """Check the trust file TRUST.toml, and say whom it accepts weights from."""
    trust = read_trust(path)
    if as_json:
        write_json({"file": str(path), **_as_json(trust)})
        return
    click.echo(printable(str(path)))
    for label, text in _lines(trust):
        click.echo(f"  {label:<13} {printable(text)}")


def _lines(trust: TrustFile) -> list[tuple[str, str]]:
    lines = [
        ("digest", trust.digest.hex()),
        (
            "weights",
            f"{_asked(trust.require_signed)} signed, {_asked(trust.require_sealed)} sealed",
        ),
    ]
    for key in trust.keys.values():
        lines += [(f"key {key.name}", f"{key.role}{_window(key)}"), ("", key.key_id.hex())]
    for line in trust.lines.values():
        names = ", ".join(sorted(trust.keys[key_id].name for key_id in line.signer_ids))
        text = f"{line.threshold} of {names}; releases from {line.minimum_release} on"
        lines.append((f"line {line.name}", text))
    lines.append(("revocations", _revocations(trust.revocations)))
    lines += [(f"log {log.name}", log.log_id.hex()) for log in trust.logs.values()]
    return lines


def _asked(required: bool) -> str:
    return "must be" if required else "need not be"


def _window(key: TrustedKey) -> str:
    start = "" if key.not_before is None else f" from {show_instant(key.not_before)}"
    end = "" if key.not_after is None else f" until {show_instant(key.not_after)}"
    return start + end


def _revocations(rules: RevocationRules) -> str:
    if not rules.required:
        return "no list is asked for"
    text = f"a list is asked for, from number {rules.minimum_sequence} on"
    if rules.maximum_age_s is None:
        return text
    return f"{text}, at most {rules.maximum_age_s // DAY_S} days old"


def _as_json(trust: TrustFile) -> dict[str, object]:
    rules = trust.revocations
    return {
        "trust_digest": trust.digest.hex(),
        "require_signed": trust.require_signed,
        "require_sealed": trust.require_sealed,
        "keys": [
            {
                "name": key.name,
                "role": key.role,
                "key_id": key.key_id.hex(),
                "not_before": key.not_before,
                "not_after": key.not_after,
            }
            for key in trust.keys.values()
        ],
        "lines": [
            {
                "name": line.name,
                "signers": sorted(trust.keys[key_id].name for key_id in line.signer_ids),
                "threshold": line.threshold,
                "minimum_release": line.minimum_release,
            }
            for line in trust.lines.values()
        ],
        "revocations": {
            "required": rules.required,
            "minimum_sequence": rules.minimum_sequence,
            "maximum_age_s": rules.maximum_age_s,
        },
        "logs": [{"name": log.name, "id": log.log_id.hex()} for log in trust.logs.values()],
    }
