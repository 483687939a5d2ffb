"""What an auditor is given: reproducible, and signed so that OpenSSL can check it."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from crypto.sm3 import sm3
from tests.appliance.cli.workshop import Workshop

NAMES = ("verifier.pyz", "verify.html", "SPEC.md")


@pytest.fixture
def shop(tmp_path) -> Workshop:
    return Workshop(tmp_path)


def test_files_and_digests(shop: Workshop) -> None:
    key = shop.key("software", "software")
    value = shop.done("publish-verifier", shop.path("out"), "--key", key).value
    for name in NAMES:
        assert value["sm3"][name] == sm3((shop.path("out") / name).read_bytes()).hex()
    again = shop.done("publish-verifier", shop.path("again"), "--key", key).value
    assert again["sm3"] == value["sm3"]
    assert shop("publish-verifier", shop.path("out"), "--key", key).exit_code == 2
    shop.done("publish-verifier", shop.path("out"), "--key", key, "--force")
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(shop.path("out") / "verifier.pyz"), "--help"],
        capture_output=True,
        check=True,
    )
    assert b"--trust" in done.stdout


def test_openssl_checks_every_signature(shop: Workshop) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl command")
    key = shop.key("software", "software", passphrase=b"secret")
    secret = shop.secret("pass", b"secret\n")
    shop.done("publish-verifier", shop.path("out"), "--key", key, "--key-passphrase-file", secret)

    def verify(name: str) -> int:
        path = shop.path("out") / name
        words = [openssl, "pkeyutl", "-verify", "-rawin", "-digest", "sm3", "-pubin"]
        words += ["-pkeyopt", "distid:1234567812345678", "-inkey", str(shop.public("software"))]
        words += ["-in", str(path), "-sigfile", f"{path}.sig"]
        return subprocess.run(words, capture_output=True, check=False).returncode

    for name in NAMES:
        assert verify(name) == 0
        path = shop.path("out") / name
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        assert verify(name) != 0


def test_a_key_of_another_role_signs_nothing(shop: Workshop) -> None:
    result = shop("publish-verifier", shop.path("out"), "--key", shop.key("attest", "attest"))
    assert (result.exit_code, result.reason) == (2, "role")
    assert not shop.path("out").exists()
