"""What the tests of SM2 share: both providers, a key with leading zeros, OpenSSL's command line."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from crypto.sm2 import PrivateKey, private_key
from crypto.sm2_hedged import HedgedProvider
from crypto.sm2_system import SystemProvider

SYSTEM, HEDGED = SystemProvider(), HedgedProvider()
both_providers = pytest.mark.parametrize("provider", [SYSTEM, HEDGED], ids=["libcrypto", "gmssl"])
OPENSSL = shutil.which("openssl")
needs_openssl = pytest.mark.skipif(OPENSSL is None, reason="there is no openssl command")

MESSAGES = {
    "empty": b"",
    "byte": b"a",
    "crlf": b"line\r\nline\r\n",
    "mebibyte": bytes(range(256)) * 4096,
}


def key_of(number: int, provider: object = SYSTEM) -> PrivateKey:
    """Return the key of a small number."""
    return private_key(number.to_bytes(32, "big"), use=provider)


def openssl(*arguments: object, check: bool = True, input: bytes | None = None):
    """Run the command line and return the finished process."""
    return subprocess.run(
        [OPENSSL, *map(str, arguments)], capture_output=True, check=check, input=input
    )
