"""Put kernel, initrd and command line behind systemd's stub, into one program for UEFI.

    uki.py STUB OUT .cmdline=FILE .initrd=FILE .linux=FILE

The stub finds the parts by the names of their sections. One signature over the file (sbsign) covers
all of them, and with the command line the root hash. Layout: PE32+ of Microsoft's PE format; the
same input gives the same bytes.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import Final, NamedTuple

_PE_OFFSET_AT: Final = 0x3C
_COFF_BYTES: Final = 24
_SECTION = struct.Struct("<8sIIIIIIHHI")
_PE32_PLUS: Final = 0x20B
_READ_DATA: Final = 0x40000040
_PAGE_BYTES: Final = 4096


class _Headers(NamedTuple):
    """Where the headers of a program are, and what it is aligned to."""

    pe: int
    optional: int
    table: int
    num_sections: int
    section_alignment: int
    file_alignment: int
    num_header_bytes: int


def append_sections(stub: bytes, sections: list[tuple[str, bytes]]) -> bytes:
    """Return the stub with sections behind its own.

    Raises:
        ValueError: it is no PE32+ program, or its headers have no room.
    """
    headers = _headers(stub)
    end = raw_end = 0
    for index in range(headers.num_sections):
        at = headers.table + index * _SECTION.size
        _, size, address, raw, pointer, *_ = _SECTION.unpack_from(stub, at)
        end, raw_end = max(end, address + size), max(raw_end, pointer + raw)
    # Symbols behind the last section would be a gap, which a signature does not cover.
    image = bytearray(stub[:raw_end])
    struct.pack_into("<II", image, headers.pe + 12, 0, 0)
    image += bytes(-len(image) % headers.file_alignment)
    # a kernel begins at a page
    alignment = max(headers.section_alignment, _PAGE_BYTES)
    at = headers.table + headers.num_sections * _SECTION.size
    for name, data in sections:
        if at + _SECTION.size > headers.num_header_bytes or any(image[at : at + _SECTION.size]):
            raise ValueError("the stub has no room for another section")
        address = end + -end % alignment
        raw = len(data) + -len(data) % headers.file_alignment
        _SECTION.pack_into(image, at, name.encode().ljust(8, b"\0"), len(data), address, raw,
                           len(image), 0, 0, 0, 0, _READ_DATA)  # fmt: skip
        image += data + bytes(raw - len(data))
        end, at = address + len(data), at + _SECTION.size
    struct.pack_into("<H", image, headers.pe + 6, headers.num_sections + len(sections))
    size_of_image = end + -end % headers.section_alignment
    struct.pack_into("<I", image, headers.optional + 56, size_of_image)
    struct.pack_into("<I", image, headers.optional + 64, 0)  # a checksum that UEFI does not read
    return bytes(image)


def _headers(stub: bytes) -> _Headers:
    if len(stub) < 1024 or stub[:2] != b"MZ":
        raise ValueError("the stub is no program for UEFI")
    (pe,) = struct.unpack_from("<I", stub, _PE_OFFSET_AT)
    if stub[pe : pe + 4] != b"PE\0\0":
        raise ValueError("the stub has no PE header")
    num_sections, num_optional = struct.unpack_from("<H12xH", stub, pe + 6)
    optional = pe + _COFF_BYTES
    (magic,) = struct.unpack_from("<H", stub, optional)
    if magic != _PE32_PLUS:
        raise ValueError("the stub is not for 64 bits")
    section_alignment, file_alignment = struct.unpack_from("<II", stub, optional + 32)
    (num_header_bytes,) = struct.unpack_from("<I", stub, optional + 60)
    table = optional + num_optional
    return _Headers(pe, optional, table, num_sections, section_alignment, file_alignment,
                    num_header_bytes)  # fmt: skip


def main() -> None:
    """Read the files that the command line names, and write the program."""
    stub, out, *named = sys.argv[1:]
    sections = []
    for word in named:
        name, _, path = word.partition("=")
        sections.append((name, Path(path).read_bytes()))
    Path(out).write_bytes(append_sections(Path(stub).read_bytes(), sections))


if __name__ == "__main__":
    main()
