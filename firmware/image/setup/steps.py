"""What happens at each start: keys and log at the first one, what a medium brings at any."""

from __future__ import annotations

import re
import shutil
from typing import Final

from fault import SetupError, say
from files import copy, same, write
from keys import make_keys, note_protection, passphrase_of, wipe
from medium import Medium, mounted
from network import install_certificates_of_clients, install_network
from places import Places
from programs import ADMIN_GROUP, SERVICE, run, service_folder
from tls import certificate_of, install_tls
from wishes import Wishes

SCOPES: Final = ("generate", "embeddings", "models", "attestations", "log", "metrics", "status")
MANIFEST: Final = "usr/lib/windhover/software.cose"
_COMPLETE: Final = "complete"
_CAPITALS: Final = {"MODEL": "model", "ISSUER": "issuer"}


def prepare_machine(places: Places) -> None:
    """Do all steps; each is there whole or done again.

    Raises:
        SetupError: the first start has no medium, or a step failed.
    """
    _keep_name(places)
    with mounted(places, writable=True) as medium:
        if medium is None:
            if not (places.own / _COMPLETE).exists():
                raise SetupError("the first start needs the medium")
            say("no medium; nothing is changed")
            return
        wishes = medium.wishes()
        _install(places, wishes, medium)
        make_keys(places, wishes.keys)
        note_protection(places)
        _make_log(places, wishes)
        _write_verifier(places)
        key = _make_api_key(places, medium)
        _install_weights(places, medium)
        _export(places, medium, key)
        write(places.own / _COMPLETE, b"")


def _keep_name(places: Places) -> None:
    """Keep the machine's id, which the initrd gives to every later start."""
    now = (places.root / "etc/machine-id").read_text().strip()
    kept = places.own / "machine-id"
    if not kept.exists():
        write(kept, f"{now}\n".encode())
    if kept.read_text().strip() != now:
        raise SetupError("this machine has another id than its data disk")


def _install(places: Places, wishes: Wishes, medium: Medium) -> None:
    """Install configuration, trust, certificates and addresses."""
    install_network(places, wishes)
    install_certificates_of_clients(places, wishes, medium)
    install_tls(places, medium.small("tls.crt"), medium.small("tls.key"), wishes.hosts)
    configuration = medium.small("appliance.toml")
    if configuration is None and not (places.etc / "appliance.toml").exists():
        configuration = _configuration(places, wishes)
    for name, data in (
        ("appliance.toml", configuration),
        ("trust.toml", medium.small("trust.toml")),
    ):
        if data is not None:
            write(places.etc / name, data, mode=0o640, owner=(0, ADMIN_GROUP))


def _configuration(places: Places, wishes: Wishes) -> bytes:
    """Fill the names into the configuration that the image brings."""
    text = (places.share / "appliance.toml").read_text(encoding="utf-8")
    for capitals, field in _CAPITALS.items():
        text = text.replace(f'"{capitals}"', f'"{getattr(wishes, field)}"')
    hosts = ", ".join(f'"{host}"' for host in wishes.hosts)
    text = text.replace('"AI.EXAMPLE"', hosts)
    manifest = places.root / MANIFEST
    if manifest.exists():
        text += f'\n[software]\nmanifest = "/{MANIFEST}"\n'
    return text.encode()


def _make_log(places: Places, wishes: Wishes) -> None:
    """Begin the log; one that a power cut left before anything was written to it is begun again."""
    lines = places.own / "log.lines"
    if lines.exists():
        return
    if (places.own / _COMPLETE).exists():
        raise SetupError("the log was begun, and its lines are gone")
    say("beginning the log of attestations")
    for left in (places.state / "log", places.anchor / "anchor"):
        if left.is_dir():
            shutil.rmtree(left)
        else:
            left.unlink(missing_ok=True)
    passphrase = passphrase_of(places, "attest")
    key = passphrase.with_name("attest.pem")
    key.unlink(missing_ok=True)
    copy(places.etc / "attest.pem", key, mode=0o600, owner=SERVICE)
    printed = run("windhover", "log", "new", places.state / "log", "--key", key,
                  "--key-passphrase-file", passphrase, "--issuer", wishes.issuer,
                  "--anchor", places.anchor / "anchor", as_service=True)  # fmt: skip
    wipe(passphrase)
    key.unlink()
    found = re.search(r"^\[logs\.NAME\]\nid = \"[0-9a-f]{64}\"$", printed, re.MULTILINE)
    if found is None:
        raise SetupError("`windhover log new` did not say which log it began")
    write(lines, (found[0].replace("NAME", "appliance") + "\n").encode())


def lines_of(places: Places) -> bytes:
    """Return what an auditor's trust file says of this machine."""
    return (
        (places.own / "attest.lines").read_bytes() + b"\n" + (places.own / "log.lines").read_bytes()
    )


def _write_verifier(places: Places) -> None:
    """Write the trust file of the nightly check, when there is one for weights."""
    trust = places.etc / "trust.toml"
    if trust.exists():
        data = trust.read_bytes().rstrip() + b"\n\n" + lines_of(places)
        write(places.etc / "verifier.toml", data, mode=0o640, owner=(0, ADMIN_GROUP))


def _make_api_key(places: Places, medium: Medium) -> bytes | None:
    """Make the first key for the service, which only the medium has; None at a later start."""
    if (places.own / "api-key").exists():
        return None
    keys, folder = places.state / "api-keys.json", service_folder(places, "api")
    keys.unlink(missing_ok=True)
    out = folder / "api.key"
    out.unlink(missing_ok=True)
    scopes = [word for scope in SCOPES for word in ("--scope", scope)]
    run("windhover", "apikey", "new", keys, "--name", "first", "--out", out, *scopes,
        as_service=True)  # fmt: skip
    key = out.read_bytes()
    wipe(out)
    medium.export("api.key", key)
    write(places.own / "api-key", b"exported\n")
    return key


def _install_weights(places: Places, medium: Medium) -> None:
    """Copy weights that are not there yet, and look whether they are whole."""
    source, target = medium.large("model.vqf"), places.weights / "model.vqf"
    if source is None or same(source, target):
        return
    say(f"copying the weights, {source.stat().st_size} bytes")
    run("windhover", "inspect", source)
    copy(source, target, mode=0o640, owner=(0, ADMIN_GROUP))


def _export(places: Places, medium: Medium, key: bytes | None) -> None:
    """Hand out what others need: who seals weights, who audits, who asks."""
    for role in ("unseal", "attest"):
        medium.export(f"{role}.pub.pem", (places.etc / f"{role}.pub.pem").read_bytes())
    medium.export("verifier-lines.toml", lines_of(places))
    medium.export("tls.crt", certificate_of(places))
    has_weights = (places.weights / "model.vqf").exists()
    medium.export("status.txt", (
        f"keys: {(places.own / 'keys').read_text().strip()}\n"
        f"machine: {(places.own / 'machine-id').read_text().strip()}\n"
        f"trust: {'installed' if (places.etc / 'trust.toml').exists() else 'missing'}\n"
        f"weights: {'installed' if has_weights else 'missing: seal them to unseal.pub.pem'}\n"
        f"api key: {'made now' if key else 'made before'}\n"
    ).encode())  # fmt: skip
    if not has_weights:
        say("no weights yet: seal them to export/unseal.pub.pem of the medium")
