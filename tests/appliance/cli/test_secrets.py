"""Where secrets come from, and that they are seen nowhere else."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

from appliance.cli.secrets import passphrase, private_keys, refuse_shared_input
from tests.appliance.cli.workshop import PROGRAM, Workshop

if TYPE_CHECKING:
    from crypto.sm2 import PrivateKey

CHECKOUT = Path(__file__).resolve().parents[3]
SECRET = b"correct horse battery staple"


def watch(*words: object, stdin: bytes = b"", **environment: str) -> tuple[int, bytes, set[bytes]]:
    """Run a command; return exit code, all output, and what others saw of it in /proc."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=CHECKOUT,
        env={**os.environ, **environment},
    )
    assert process.stdin is not None
    process.stdin.write(stdin)
    process.stdin.close()
    seen = set()
    folder = Path(f"/proc/{process.pid}")
    while process.poll() is None:
        with suppress(ProcessLookupError):  # it has ended meanwhile
            seen.update((folder / name).read_bytes() for name in ("cmdline", "environ", "comm"))
    assert process.stdout is not None
    output = process.stdout.read()
    process.stdout.close()
    return process.returncode, output, seen


def test_standard_input(shop: Workshop) -> None:
    sealed = shop.path("sealed.vqf")
    words = ("seal", shop.weights(), sealed, "--passphrase-file", "-", "--json")
    exit_code, output, seen = watch(*words, stdin=SECRET + b"\n")
    assert exit_code == 0, output
    assert any(b"--passphrase-file" in text for text in seen)
    assert not any(SECRET in text for text in (output, *seen))
    shop.done("check", sealed, "--dev", "--passphrase-file", shop.secret("pass", SECRET))


def test_a_credential_of_systemd(shop: Workshop) -> None:
    folder = shop.path("credentials")
    folder.mkdir(mode=0o700)
    shop.secret("credentials/unseal", SECRET + b"\n")
    shop.key("locked", "unseal", passphrase=SECRET)
    sealed = shop.path("sealed.vqf")
    shop.done("seal", shop.weights(), sealed, "--to", shop.public("locked"))
    opening = ("--key", shop.path("locked.pem"), "--key-passphrase-file", "credential:unseal")
    words = ("check", sealed, "--dev", *opening, "--json")
    exit_code, output, seen = watch(*words, CREDENTIALS_DIRECTORY=str(folder))
    assert exit_code == 0, output
    assert not any(SECRET in text for text in (output, *seen))


def test_an_interrupted_seal_shows_no_secret_with_its_traceback(shop: Workshop) -> None:
    words = ("--debug", "seal", shop.weights(), shop.path("no/where"), "--passphrase-file", "-")
    exit_code, output, _ = watch(*words, stdin=SECRET)
    assert exit_code == 2
    assert b"Traceback" in output
    assert SECRET not in output


def test_keys_are_wiped_and_asked_for_once(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [shop.key(name, "unseal", passphrase=SECRET) for name in ("a", "b")]
    source = str(shop.secret("pass", SECRET))
    asked = []
    from appliance.cli import secrets as module

    read = module.read_secret

    def reading(source: str, **settings: Any) -> Any:
        asked.append(read(source, **settings))
        return asked[-1]

    monkeypatch.setattr(module, "read_secret", reading)
    with private_keys(paths, source, role="unseal") as keys:
        assert [len(secret_of(key)) for key in keys] == [32, 32]
    assert len(asked) == 1
    for wiped in (lambda: secret_of(keys[0]), lambda: secret_of(keys[1]), lambda: asked[0].value):
        with pytest.raises(ValueError, match="wiped"):
            wiped()


def secret_of(key: PrivateKey) -> bytes:
    """Return the number of a private key."""
    with key.secret() as secret:
        return bytes(secret)


def test_what_is_not_needed_is_not_read(shop: Workshop) -> None:
    with private_keys([shop.path("vendor.pem")], "nonesuch", role="weights") as (key,):
        assert key.key_id
    with passphrase(None, what="nothing") as nothing:
        assert nothing is None


def test_two_secrets_do_not_share_standard_input() -> None:
    refuse_shared_input("-", None, "file")
    with pytest.raises(click.UsageError):
        refuse_shared_input("-", None, "-")
