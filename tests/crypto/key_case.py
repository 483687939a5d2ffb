"""What the tests of key files share."""

from __future__ import annotations

import base64

import pytest

from crypto.errors import KeyFileError
from crypto.keys import load_private_key
from crypto.pkcs8 import encode_pkcs8
from tests.crypto.sm2_case import key_of

KEY, OTHER = key_of(0x5EED), key_of(0x5EEE)
PASSPHRASE = b"correct horse"


def saved(folder, content, mode=0o600):
    """Write a private file and return its path."""
    path = folder / "file.pem"
    path.write_bytes(content)
    path.chmod(mode)
    return path


def pem(label, content):
    """Return a PEM file without a role."""
    text = base64.encodebytes(content).decode()
    return f"-----BEGIN {label}-----\n{text}-----END {label}-----\n".encode()


def refused(load, *arguments, **options):
    """Return the reason and the line with which something is refused."""
    with pytest.raises(KeyFileError) as caught:
        load(*arguments, **options)
    return caught.value.reason, str(caught.value)


def private(path, passphrase=None, role=None):
    """Load a private key."""
    return load_private_key(path, passphrase=passphrase, role=role)


PLAIN = pem("PRIVATE KEY", encode_pkcs8(KEY))
