"""A recipient who holds the data key and makes every tag right on his copy of a sealed file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from engine.vqf import open_vqf
from engine.vqf.unlock import Unlock
from tests.engine.vqf import second


class Holder:
    """The bytes of a sealed file, and what its data key can do to them."""

    def __init__(self, path: Path, unlock: Unlock) -> None:
        with open_vqf(path, unlock) as file:
            assert file.seal is not None
            self.data_key = file.seal.data_key
            manifest = file.manifest.encode()
        self.raw = bytearray(path.read_bytes())
        self.chunks = second.grid(manifest)
        section_start = second.MANIFEST + len(manifest)
        section = bytes(self.raw[section_start : section_start + self.field("signatures_length")])
        self.parts = second.Sealed(
            self.data_key, self.file_id, self.counter_start, b"", manifest, section, b""
        )
        start = int.from_bytes(self.counter_start, "big")
        sealed = self.raw[second.MANIFEST : section_start + len(section)]
        plain = second.ctr(self.parts.derived["manifest_cipher"], start, bytes(sealed))
        assert plain[: len(manifest)] == manifest
        self.parts.signatures = plain[len(manifest) :]

    @property
    def file_id(self) -> bytes:
        return bytes(self.raw[96:128])

    @property
    def counter_start(self) -> bytes:
        return bytes(self.raw[80:96])

    @property
    def data_offset(self) -> int:
        return self.field("data_offset")

    @property
    def table_start(self) -> int:
        lengths = self.field("manifest_length") + self.field("signatures_length")
        return second.MANIFEST + lengths + 32

    def field(self, name: str) -> int:
        at, width = second.FIELDS[name]
        return int.from_bytes(self.raw[at : at + width], "little")

    def set_field(self, name: str, value: int) -> None:
        at, width = second.FIELDS[name]
        self.raw[at : at + width] = value.to_bytes(width, "little")

    def span(self, number: int) -> slice:
        """Return where a chunk lies in the file."""
        chunk = self.chunks[number]
        start = self.data_offset + chunk.start
        return slice(start, start + chunk.length)

    def tag_span(self, number: int) -> slice:
        start = self.table_start + 32 * number
        return slice(start, start + 32)

    def number(self, extent: int, index: int) -> int:
        """Return the global number of a chunk."""
        (found,) = [c.number for c in self.chunks if (c.extent, c.index) == (extent, index)]
        return found

    def exchange(self, first: slice, second_: slice) -> None:
        self.raw[first], self.raw[second_] = self.raw[second_], self.raw[first]

    def retag(self, *numbers: int) -> None:
        """Give chunks the tags of what lies there now."""
        for number in numbers:
            text = bytes(self.raw[self.span(number)])
            self.raw[self.tag_span(number)] = self.parts.chunk_tag(self.chunks[number], text)

    def change_plain(self, number: int, at: int, value: bytes) -> None:
        """Change plain bytes of a chunk; a counter mode needs no key for that. The tag follows."""
        start = self.span(number).start + at
        stream = second.ctr(
            self.parts.derived["data_cipher"],
            65_536 * number + at // 16,
            bytes(at % 16 + len(value)),
        )[at % 16 :]
        self.raw[start : start + len(value)] = bytes(
            a ^ b for a, b in zip(value, stream, strict=True)
        )
        self.retag(number)

    def retag_header(self) -> None:
        head = bytes(self.raw[: second.HEADER_TAG])
        self.raw[second.HEADER_TAG : second.MANIFEST] = self.parts.header_tag(head)

    def rewrite_manifest(self, manifest: bytes, signatures: bytes) -> None:
        """Put another manifest and other signatures there, with all tags."""
        data, table = self.raw[self.data_offset :], self.raw[self.table_start :]
        table = table[: 32 * len(self.chunks)]
        self.parts = replace(self.parts, manifest=manifest, signatures=signatures)
        body = self.parts.sealed_manifest() + self.parts.manifest_tag() + table
        data_offset = second.up(second.MANIFEST + len(body), 4096)
        front = self.raw[: second.MANIFEST] + body
        self.raw = bytearray(bytes(front).ljust(data_offset, b"\0") + data)
        self.set_field("manifest_length", len(manifest))
        self.set_field("signatures_length", len(signatures))
        self.set_field("data_offset", data_offset)
        self.set_field("file_length", len(self.raw))
        self.retag_header()

    def save(self, path: Path) -> Path:
        path.write_bytes(self.raw)
        return path
