"""The keys, files and numbers of tests/data/vqf/sealed.json; public, they protect nothing."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from crypto import sm2
from crypto.errors import CryptoError
from crypto.signer import SoftwareSigner, SoftwareUnwrapper
from engine.vqf.unlock import Unlock

DATA = Path(__file__).parents[2] / "data" / "vqf"
PLAIN, SIGNED = "tiny.vqf", "tiny-signed.vqf"
FOR_KEYS, FOR_PASSPHRASE = "tiny-sealed-keys.vqf", "tiny-sealed-passphrase.vqf"
PROTECTED = (SIGNED, FOR_KEYS, FOR_PASSPHRASE)
OPENS = {SIGNED: "nothing", FOR_KEYS: "alice", FOR_PASSPHRASE: "passphrase"}


@cache
def numbers() -> dict[str, Any]:
    return json.loads((DATA / "sealed.json").read_text(encoding="utf-8"))


def of(name: str) -> dict[str, Any]:
    """Return what is known about one of the files."""
    return numbers()["files"][name]


def data_key(name: str) -> bytes:
    return bytes.fromhex(of(name)["data_key"])


def passphrase() -> bytes:
    return numbers()["passphrase"].encode()


@cache
def key(name: str) -> sm2.PrivateKey:
    return sm2.private_key(bytes.fromhex(numbers()["keys"][name]["secret"]))


def signer(name: str) -> SoftwareSigner:
    return SoftwareSigner(key(name))


class Remembering:
    """Unwraps a cipher text once: tests that open a file ten thousand times have time for it."""

    def __init__(self, private_key: sm2.PrivateKey) -> None:
        self.key_id = private_key.key_id
        self._unwrapper = SoftwareUnwrapper(private_key)
        self._known: dict[bytes, bytes | CryptoError] = {}
        self.num_computed = 0

    def unwrap(self, ciphertext: bytes) -> bytes:
        if ciphertext not in self._known:
            self.num_computed += 1
            try:
                self._known[ciphertext] = self._unwrapper.unwrap(ciphertext)
            except CryptoError as error:
                self._known[ciphertext] = error
        known = self._known[ciphertext]
        if isinstance(known, CryptoError):
            raise known
        return known


@cache
def remembering(name: str) -> Remembering:
    return Remembering(key(name))


def unlock(name: str = "alice") -> Unlock:
    """Return what opens a file: a key by its name, `passphrase`, another passphrase, `nothing`."""
    if name == "nothing":
        return Unlock()
    if name == "passphrase":
        return Unlock(passphrase=passphrase())
    if name.startswith("passphrase:"):
        return Unlock(passphrase=name.removeprefix("passphrase:").encode())
    return Unlock((remembering(name),))
