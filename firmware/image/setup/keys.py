"""Keys of this machine: made here, encrypted under passphrases that systemd encrypts for it."""

from __future__ import annotations

import base64
import os
import secrets
from pathlib import Path
from typing import Final

from fault import SetupError, say
from files import sync, write
from places import Places, gives_away
from programs import SERVICE, run, service_folder

ROLES: Final = ("unseal", "attest")
TPM_DEVICE: Final = "dev/tpmrm0"


def make_keys(places: Places, wish: str) -> None:
    """Make the keys that are not there; each is complete when its private file has its name.

    Args:
        places: of the machine.
        wish: `tpm`, `disk`, or `auto`: with a TPM where there is one.

    Raises:
        SetupError: a TPM is wished for and not there, or a program failed.
    """
    for role in ROLES:
        if not (places.etc / f"{role}.pem").exists():
            _make(places, role, _protection(places, wish))


def _protection(places: Places, wish: str) -> str:
    """Return what encrypts the passphrases: `tpm` or `disk`."""
    has_tpm = (places.root / TPM_DEVICE).exists()
    if wish == "tpm" and not has_tpm:
        raise SetupError("setup.toml wishes for a TPM, and there is none")
    return "tpm" if has_tpm and wish != "disk" else "disk"


def _make(places: Places, role: str, protection: str) -> None:
    say(f"making the key that does {role}; its passphrase is encrypted by the {protection}")
    folder = service_folder(places, "keys")
    for left in folder.iterdir():
        left.unlink()
    passphrase = _passphrase_file(folder, base64.b64encode(secrets.token_bytes(32)))
    key = folder / f"{role}.pem"
    lines = run("windhover", "keygen", key, "--role", role, "--passphrase-file", passphrase,
                as_service=True)  # fmt: skip
    encrypt(places, role, passphrase, protection)
    write(places.own / f"{role}.lines", lines.encode())
    write(places.etc / f"{role}.pub.pem", (folder / f"{role}.pub.pem").read_bytes(), mode=0o644)
    # The name of the private file is what says that all of it is there.
    write(places.etc / f"{role}.pem", key.read_bytes(), mode=0o600, owner=SERVICE)
    wipe(passphrase)
    key.unlink()


def encrypt(places: Places, role: str, passphrase: Path, protection: str) -> None:
    """Let systemd encrypt a passphrase, bound to this machine."""
    target = places.credentials / f"{role}.cred"
    new = target.with_name(f".{role}.new")
    with_key = "host+tpm2" if protection == "tpm" else "host"
    run("systemd-creds", "encrypt", f"--with-key={with_key}", f"--name={role}", passphrase, new)
    new.chmod(0o600)
    descriptor = os.open(new, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    new.rename(target)
    sync(target.parent)
    write(places.own / f"{role}.protection", f"{protection}\n".encode())


def passphrase_of(places: Places, role: str) -> Path:
    """Decrypt a passphrase into a file in memory, for the service's user; `wipe` it after use."""
    folder = service_folder(places, "keys")
    return _passphrase_file(
        folder,
        run("systemd-creds", "decrypt", f"--name={role}", places.credentials / f"{role}.cred", "-")
        .strip().encode(),
    )  # fmt: skip


def wipe(path: Path) -> None:
    """Overwrite and remove a file that is in memory."""
    with path.open("r+b") as file:
        file.write(bytes(path.stat().st_size))
    path.unlink()


def note_protection(places: Places) -> str:
    """Write down what protects both passphrases, for the service; return `tpm` or `disk`."""
    said = {(places.own / f"{role}.protection").read_text().strip() for role in ROLES}
    protection = "tpm" if said == {"tpm"} else "disk"
    write(places.own / "keys", f"{protection}\n".encode())
    return protection


def _passphrase_file(folder: Path, value: bytes) -> Path:
    path = folder / "passphrase"
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(value + b"\n")
    if gives_away():
        os.chown(path, *SERVICE)
    return path
