"""Makes tiny-signed.vqf, tiny-sealed-keys.vqf, tiny-sealed-passphrase.vqf and sealed.json.

Everything that is random in a real file is SHAKE128 of a name here, so that anybody can make the
same bytes; the writer is `second`, not the library. Run as
`python -m tests.engine.vqf.make_sealed_vectors` after a change of the format, which is a new
version.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from typing import Any

import cbor2

from crypto import sm2
from crypto.sm2_curve import N
from tests.engine.vqf import second
from tests.engine.vqf.vectors import DATA, FOR_KEYS, FOR_PASSPHRASE, PLAIN, SIGNED

ROLES = {
    "alice": "unseal",
    "bob": "unseal",
    "stranger": "unseal",
    "signer_1": "weights",
    "signer_2": "weights",
}
PASSPHRASE = "eleven kestrels over the dyke"  # noqa: S105 - public, as sealed.json says
ITERATIONS = 600_000
RELEASE = {
    "line": "tiny",
    "release": 3,
    "not_before": 1_767_225_600,
    "expires": 4_102_444_800,
    "least_runtime": [0, 1, 0],
    "supersedes": [1],
}
# the counter passes 2^128 - 1 inside the manifest
COUNTER_START = ((1 << 128) - 2).to_bytes(16, "big")


def drawn(name: str, length: int = 32) -> bytes:
    """Return what stands in the place of random bytes."""
    return hashlib.shake_128(f"windhover test vector: {name}".encode()).digest(length)


def number(name: str) -> int:
    """Return a number in 1 .. n - 2."""
    return 1 + int.from_bytes(drawn(name, 48), "big") % (N - 2)


@cache
def private_key(name: str) -> sm2.PrivateKey:
    return sm2.private_key(number(f"key of {name}").to_bytes(32, "big"))


def plain_parts() -> tuple[bytes, bytes, bytes]:
    """Return tiny.vqf, its manifest and its data area."""
    file = (DATA / PLAIN).read_bytes()
    length, offset = (int.from_bytes(file[at : at + 8], "little") for at in (32, 48))
    return file, file[128 : 128 + length], file[offset:]


def signatures() -> bytes:
    """Return the section that both signers made."""
    payload = second.release(plain_parts()[0][96:128], RELEASE)
    entries = [
        second.sign1(payload, private_key(name), number(f"signature of {name}"))
        for name in ("signer_1", "signer_2")
    ]
    return cbor2.dumps(sorted(entries))


@cache
def sealed_for_keys() -> second.Sealed:
    _, manifest, data = plain_parts()
    data_key, file_id = drawn(f"data key of {FOR_KEYS}"), drawn(f"file id of {FOR_KEYS}")
    wraps = [
        (private_key(name).public_key, number(f"wrap for {name}")) for name in ("alice", "bob")
    ]
    recipients = second.key_recipients(data_key, wraps)
    return second.Sealed(data_key, file_id, COUNTER_START, recipients, manifest, signatures(), data)


@cache
def passphrase_wrap() -> second.ByPassphrase:
    return second.ByPassphrase(
        PASSPHRASE.encode(),
        drawn(f"salt of {FOR_PASSPHRASE}"),
        ITERATIONS,
        drawn(f"data key of {FOR_PASSPHRASE}"),
        drawn(f"file id of {FOR_PASSPHRASE}"),
    )


@cache
def sealed_for_passphrase() -> second.Sealed:
    _, manifest, data = plain_parts()
    wrap = passphrase_wrap()
    counter_start = drawn(f"counter start of {FOR_PASSPHRASE}", 16)
    return second.Sealed(
        wrap.data_key, wrap.file_id, counter_start, wrap.recipients(), manifest, b"", data
    )


def files() -> dict[str, bytes]:
    return {
        SIGNED: second.signed(plain_parts()[0], signatures()),
        FOR_KEYS: sealed_for_keys().built(),
        FOR_PASSPHRASE: sealed_for_passphrase().built(),
    }


def described(parts: second.Sealed) -> dict[str, Any]:
    """Return the values on the way to a sealed file."""
    file = parts.built()
    chunks = second.grid(parts.manifest)
    tags = [parts.chunk_tag(chunk, parts.sealed_chunk(chunk)) for chunk in chunks]
    return {
        "data_key": parts.data_key.hex(),
        "file_id": parts.file_id.hex(),
        "counter_start": parts.counter_start.hex(),
        "derived": {name: value.hex() for name, value in parts.derived.items()},
        "header_tag": parts.header_tag(file[: second.HEADER_TAG]).hex(),
        "manifest_tag": parts.manifest_tag().hex(),
        "chunk_tags": [tag.hex() for tag in tags],
        "sm3_of_first_sealed_chunk": second.sm3(parts.sealed_chunk(chunks[0])).hex(),
    }


def described_keys() -> dict[str, Any]:
    out = {}
    for name, role in ROLES.items():
        key = private_key(name)
        out[name] = {
            "role": role,
            "secret": number(f"key of {name}").to_bytes(32, "big").hex(),
            "public": key.public_key.to_bytes().hex(),
            "key_id": key.key_id.hex(),
        }
    return out


def document() -> dict[str, Any]:
    """Return what sealed.json pins."""
    made = {name: {"file_sm3": second.sm3(file).hex()} for name, file in files().items()}
    wrap = passphrase_wrap()
    made[SIGNED] |= {
        "release": RELEASE,
        "signature_numbers": {
            name: f"{number(f'signature of {name}'):064x}" for name in ("signer_1", "signer_2")
        },
    }
    made[FOR_KEYS] |= described(sealed_for_keys()) | {
        "wrap_numbers": {name: f"{number(f'wrap for {name}'):064x}" for name in ("alice", "bob")}
    }
    made[FOR_PASSPHRASE] |= described(sealed_for_passphrase()) | {
        "salt": wrap.salt.hex(),
        "iterations": wrap.iterations,
        "secret": wrap.secret.hex(),
        "wrap_cipher": wrap.wrap_cipher.hex(),
        "wrap_key": wrap.wrap_key.hex(),
        "wrapped": wrap.wrapped.hex(),
        "tag": wrap.tag.hex(),
    }
    return {
        "source": "made by tests/engine/vqf/make_sealed_vectors.py, an implementation of FORMAT.md "
        "sections 7 and 8 of its own; what is random in real files is SHAKE128 of a name",
        "warning": "FOR TESTS ONLY: these private keys, data keys and the passphrase are public",
        "passphrase": PASSPHRASE,
        "keys": described_keys(),
        "files": made,
    }


def main() -> None:
    """Write the files."""
    for name, content in files().items():
        (DATA / name).write_bytes(content)
    text = json.dumps(document(), indent=2) + "\n"
    (DATA / "sealed.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
