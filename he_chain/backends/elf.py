"""Which versions of other libraries a shared library wants: ELF's section of needed versions.

Source: System V ABI, chapter 4 (section headers); LSB Core, section 10.7.3 (`.gnu.version_r`).
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

from he_chain.errors import BackendError

MAX_BYTES: Final = 1 << 30
_VERNEED: Final = 0x6FFFFFFE
_MAX_ENTRIES: Final = 4096


def needed_versions(path: Path) -> list[str]:
    """Return names such as `GLIBC_2.34` and `GLIBCXX_3.4.29` that a 64-bit library wants, sorted.

    Raises:
        BackendError: it cannot be read, or is no such file.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise BackendError(f"{path.name} is too large for a library")
        data = path.read_bytes()
        return sorted(set(_versions(data)))
    except OSError as error:
        raise BackendError(f"{path.name}: {error.strerror}") from None
    except (struct.error, ValueError, IndexError):
        raise BackendError(f"{path.name} is no 64-bit ELF library, or damaged") from None


def _versions(data: bytes) -> list[str]:
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError
    offset, size, count = *struct.unpack_from("<Q", data, 40), *struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)]
    names: list[str] = []
    for section in sections:
        if section[1] != _VERNEED:
            continue
        start, strings = section[4], sections[section[6]][4]
        for _ in range(_MAX_ENTRIES):
            _, num_names, _, first, following = struct.unpack_from("<HHIII", data, start)
            place = start + first
            for _ in range(num_names):
                name, step = struct.unpack_from("<II", data, place + 8)
                end = data.index(b"\0", strings + name)
                names.append(data[strings + name : end].decode("ascii"))
                place += step
            if not following:
                break
            start += following
    return names
