"""Sections 7 and 8 of FORMAT.md a second time, from the text: nothing of engine.vqf is used here.

HMAC and PBKDF2 are those of the standard library, HKDF is written out, CTR is made of single blocks
of the cipher, CBOR comes from cbor2. What both implementations have in common is SM3, and the
multiplication of points.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import cbor2
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import SM4
from cryptography.hazmat.primitives.ciphers.modes import ECB

from crypto.sm2 import PrivateKey, PublicKey, encrypt_with
from crypto.sm2_curve import N
from crypto.sm2_digest import DEFAULT_ID, message_digest
from crypto.sm2_points import multiply_generator

MAGIC = bytes.fromhex("89574856 51460d0a")
FIELDS = {
    "version": (8, 4),
    "form": (12, 4),
    "suite": (16, 4),
    "file_length": (24, 8),
    "manifest_length": (32, 8),
    "tag_table_length": (40, 8),
    "data_offset": (48, 8),
    "data_length": (56, 8),
    "signatures_length": (64, 8),
}
RECIPIENTS, HEADER_TAG, MANIFEST = 128, 16_512, 16_544
CHUNK = 1 << 20


def label(name: str) -> bytes:
    return f"windhover/vqf/{name};v=4".encode() + b"\0"


def up(value: int, multiple: int) -> int:
    return value + -value % multiple


def hmac_sm3(key: bytes, *parts: bytes) -> bytes:
    return hmac.new(key, b"".join(parts), "sm3").digest()


def hkdf(secret: bytes, salt: bytes, name: str, length: int) -> bytes:
    """At most one block of the hash is wanted, so expansion is a single step."""
    return hmac_sm3(hmac_sm3(salt, secret), label(name), b"\1")[:length]


def pbkdf2(passphrase: bytes, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac("sm3", passphrase, salt, iterations, 32)


def sm3(data: bytes) -> bytes:
    return hashlib.new("sm3", data).digest()


def ctr(key: bytes, start: int, data: bytes) -> bytes:
    count = up(len(data), 16) // 16
    blocks = b"".join(((start + i) % (1 << 128)).to_bytes(16, "big") for i in range(count))
    single = Cipher(SM4(key), ECB())  # noqa: S305 - the counter mode is made here
    stream = single.encryptor().update(blocks)[: len(data)]
    return (int.from_bytes(data, "big") ^ int.from_bytes(stream, "big")).to_bytes(len(data), "big")


@dataclass(frozen=True)
class Chunk:
    """One chunk of the data area."""

    number: int
    extent: int
    index: int
    count: int
    start: int
    length: int


def grid(manifest: bytes) -> list[Chunk]:
    """Return the chunks of the extents that a manifest has."""
    out: list[Chunk] = []
    for position, extent in enumerate(cbor2.loads(manifest)["extents"]):
        size = up(extent["length"], 4096)
        count = up(size, CHUNK) // CHUNK
        for index in range(count):
            start = index * CHUNK
            length = min(CHUNK, size - start)
            out.append(Chunk(len(out), position, index, count, extent["offset"] + start, length))
    return out


@dataclass
class Sealed:
    """What a sealed file is made of; `built` puts it together, with every tag right.

    Attributes:
        data_key: 32 bytes.
        file_id: 32 bytes.
        counter_start: 16 bytes.
        recipients: the encoded map.
        manifest: as it is encoded.
        signatures: the section, empty if there is none.
        data: the plain data area; what is behind the last chunk stays as it is.
        fields: numbers of the preamble that are other than they should be.
        area_tail: what stands behind the recipients, zeros if it is empty.
        extra_tags: what follows the tags of the chunks in the table.
        filling: what stands behind the table, zeros if it is empty.
        chunk_tags: tags that are other than they should be, by the number of the chunk.
        chunks: those of the manifest, unless the manifest is damaged.
    """

    data_key: bytes
    file_id: bytes
    counter_start: bytes
    recipients: bytes
    manifest: bytes
    signatures: bytes
    data: bytes
    fields: dict[str, int] = field(default_factory=dict)
    area_tail: bytes = b""
    extra_tags: bytes = b""
    filling: bytes = b""
    chunk_tags: dict[int, bytes] = field(default_factory=dict)
    chunks: list[Chunk] | None = None

    def key(self, name: str, length: int) -> bytes:
        return hkdf(self.data_key, self.file_id, name, length)

    @cached_property
    def derived(self) -> dict[str, bytes]:
        return {
            "data_cipher": self.key("data-cipher", 16),
            "manifest_cipher": self.key("manifest-cipher", 16),
            "tags": self.key("tags", 32),
            "header": self.key("header-key", 32),
        }

    def header_tag(self, head: bytes) -> bytes:
        return hmac_sm3(self.derived["header"], label("header"), head)

    def sealed_manifest(self) -> bytes:
        start = int.from_bytes(self.counter_start, "big")
        return ctr(self.derived["manifest_cipher"], start, self.manifest + self.signatures)

    def manifest_tag(self) -> bytes:
        lengths = struct.pack("<QQ", len(self.manifest), len(self.signatures))
        return hmac_sm3(
            self.derived["tags"],
            label("manifest-tag"),
            struct.pack("<I", 1) + self.file_id + self.counter_start + lengths,
            self.sealed_manifest(),
        )

    def sealed_chunk(self, chunk: Chunk) -> bytes:
        plain = self.data[chunk.start : chunk.start + chunk.length]
        return ctr(self.derived["data_cipher"], 65_536 * chunk.number, plain)

    def chunk_tag(self, chunk: Chunk, cipher_text: bytes) -> bytes:
        numbers = struct.pack("<IIII", chunk.extent, chunk.index, chunk.count, chunk.length)
        head = struct.pack("<I", 1) + self.file_id + numbers
        return hmac_sm3(self.derived["tags"], label("chunk-tag"), head, cipher_text)

    def built(self) -> bytes:
        """Return the file."""
        chunks = grid(self.manifest) if self.chunks is None else self.chunks
        sealed = [self.sealed_chunk(chunk) for chunk in chunks]
        table = b"".join(
            self.chunk_tags.get(chunk.number, self.chunk_tag(chunk, text))
            for chunk, text in zip(chunks, sealed, strict=True)
        )
        table += self.extra_tags
        behind = chunks[-1].start + chunks[-1].length
        body = self.sealed_manifest() + self.manifest_tag() + table
        data_offset = up(MANIFEST + len(body), 4096)
        numbers = {
            "version": 4,
            "form": 3,
            "suite": 1,
            "file_length": data_offset + len(self.data),
            "manifest_length": len(self.manifest),
            "tag_table_length": len(table),
            "data_offset": data_offset,
            "data_length": len(self.data),
            "signatures_length": len(self.signatures),
        }
        head = bytearray(MAGIC.ljust(128, b"\0"))
        for name, value in (numbers | self.fields).items():
            at, width = FIELDS[name]
            head[at : at + width] = value.to_bytes(width, "little")
        head[80:96], head[96:128] = self.counter_start, self.file_id
        area = struct.pack("<I", len(self.recipients)) + self.recipients + self.area_tail
        tagged = bytes(head) + area.ljust(16_384, b"\0")
        front = tagged + self.header_tag(tagged) + body
        return (
            (front + self.filling).ljust(data_offset, b"\0") + b"".join(sealed) + self.data[behind:]
        )


def taken_apart(file: bytes, data_key: bytes) -> Sealed:
    """Return what a sealed file is made of; no tag is compared."""
    numbers = {
        name: int.from_bytes(file[at : at + w], "little") for name, (at, w) in FIELDS.items()
    }
    length = int.from_bytes(file[RECIPIENTS : RECIPIENTS + 4], "little")
    recipients = file[RECIPIENTS + 4 : RECIPIENTS + 4 + length]
    parts = Sealed(data_key, file[96:128], file[80:96], recipients, b"", b"", b"")
    manifest_end = MANIFEST + numbers["manifest_length"]
    start = int.from_bytes(parts.counter_start, "big")
    sealed = file[MANIFEST : manifest_end + numbers["signatures_length"]]
    plain = ctr(parts.derived["manifest_cipher"], start, sealed)
    parts.manifest = plain[: numbers["manifest_length"]]
    parts.signatures = plain[numbers["manifest_length"] :]
    parts.data = file[numbers["data_offset"] :]
    parts.chunks = grid(parts.manifest)
    parts.data = b"".join(parts.sealed_chunk(chunk) for chunk in parts.chunks)
    return parts


def key_recipients(data_key: bytes, wraps: list[tuple[PublicKey, int]]) -> bytes:
    """Return the recipients' map for keys; each with the number that its encryption uses."""
    entries = [
        {"key_id": key.key_id, "wrapped": encrypt_with(key, data_key, iter([k]))}
        for key, k in wraps
    ]
    entries.sort(key=lambda entry: entry["key_id"])
    return cbor2.dumps({"sm2": entries})


@dataclass(frozen=True)
class ByPassphrase:
    """Everything on the way from a passphrase to the recipients' map."""

    passphrase: bytes
    salt: bytes
    iterations: int
    data_key: bytes
    file_id: bytes

    @cached_property
    def secret(self) -> bytes:
        return pbkdf2(self.passphrase, self.salt, self.iterations)

    @property
    def wrap_cipher(self) -> bytes:
        return hkdf(self.secret, self.salt, "wrap-cipher", 16)

    @property
    def wrap_key(self) -> bytes:
        return hkdf(self.secret, self.salt, "wrap-key", 32)

    @property
    def wrapped(self) -> bytes:
        return ctr(self.wrap_cipher, 0, self.data_key)

    @property
    def tag(self) -> bytes:
        numbers = struct.pack("<I", self.iterations)
        return hmac_sm3(
            self.wrap_key, label("wrap"), self.file_id, self.salt, numbers, self.wrapped
        )

    def recipients(self) -> bytes:
        # the keys of the map ascend by their length, as deterministic CBOR wants them here
        entry = {"tag": self.tag, "salt": self.salt, "wrapped": self.wrapped}
        return cbor2.dumps({"passphrase": entry | {"iterations": self.iterations}})


def sign1(payload: bytes, key: PrivateKey, k: int) -> bytes:
    """Return a COSE_Sign1 of a release by SM2 with the given number (GB/T 32918.2, 6.1)."""
    protected = cbor2.dumps({1: -70001, 4: key.key_id, 16: "windhover/release;v=1"})
    message = cbor2.dumps(["Signature1", protected, b"", payload])
    digest = message_digest(key.public_key.point, message, DEFAULT_ID)
    e = int.from_bytes(digest, "big") if isinstance(digest, bytes) else digest
    point = multiply_generator(k)
    assert point is not None
    with key.secret() as secret:
        d = int.from_bytes(secret, "big")
    r = (e + point.x) % N
    s = pow(1 + d, -1, N) * (k - r * d) % N
    signature = r.to_bytes(32, "big") + s.to_bytes(32, "big")
    return b"\xd2" + cbor2.dumps([protected, {}, payload, signature])


def release(model_digest: bytes, values: dict[str, Any]) -> bytes:
    """Return the payload of section 7."""
    entries: dict[int, Any] = {
        -70101: model_digest,
        -70102: values["line"],
        -70103: values["release"],
        -70104: values["not_before"],
        -70105: values["expires"],
        -70106: values["least_runtime"],
        -70107: values["supersedes"],
    }
    return cbor2.dumps(entries)


def signed(plain: bytes, signatures: bytes) -> bytes:
    """Return the signed form of a plain file."""
    out = bytearray(plain + signatures)
    for name, value in (
        ("form", 2),
        ("file_length", len(out)),
        ("signatures_length", len(signatures)),
    ):
        at, width = FIELDS[name]
        out[at : at + width] = value.to_bytes(width, "little")
    return bytes(out)
