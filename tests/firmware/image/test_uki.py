"""One file for UEFI: what is put in comes out where a loader looks, and in the same bytes."""

from __future__ import annotations

import importlib.util
import struct
from collections.abc import Callable
from typing import Any

import pytest

from tests.firmware.image.ground import IMAGE

_PE, _HEADERS = 0x80, 0x400


def _module() -> Any:
    spec = importlib.util.spec_from_file_location("uki", IMAGE / "uki.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


append: Callable[[bytes, list[tuple[str, bytes]]], bytes] = _module().append_sections


def stub(*, alignment: int = 512, sections: int = 1) -> bytes:
    """Return a program with nothing in it but headers and one section."""
    made = bytearray(_HEADERS)
    made[:2] = b"MZ"
    struct.pack_into("<I", made, 0x3C, _PE)
    made[_PE : _PE + 4] = b"PE\0\0"
    struct.pack_into("<HH12xH", made, _PE + 4, 0x8664, sections, 240)
    optional = _PE + 24
    struct.pack_into("<H", made, optional, 0x20B)
    struct.pack_into("<IIII", made, optional + 32, alignment, 512, 0, 0)
    struct.pack_into("<III", made, optional + 56, 0x5000, _HEADERS, 0xDEAD)
    struct.pack_into("<8sIIII", made, optional + 240, b".text", 100, 0x4000, 512, _HEADERS)
    return bytes(made) + b"code".ljust(512, b"\0")


def sections_of(image: bytes) -> dict[str, tuple[int, bytes]]:
    """Return address and content of each section, as a loader finds them."""
    (pe,) = struct.unpack_from("<I", image, 0x3C)
    count, size = struct.unpack_from("<H12xH", image, pe + 6)
    found = {}
    for index in range(count):
        name, length, address, raw, at = struct.unpack_from(
            "<8sIIII", image, pe + 24 + size + 40 * index
        )
        assert raw % 512 == at % 512 == 0
        assert at + raw <= len(image)
        found[name.rstrip(b"\0").decode()] = (address, image[at : at + length])
    return found


def test_what_is_put_in_comes_out() -> None:
    parts = [(".cmdline", b"ro quiet"), (".initrd", b"i" * 5000), (".linux", b"k" * 100_001)]
    made = append(stub(), parts)
    found = sections_of(made)
    assert list(found) == [".text", ".cmdline", ".initrd", ".linux"]
    assert [(name, found[name][1]) for name, _ in parts] == parts
    end = 0
    for name, (address, data) in found.items():
        assert address >= end, name
        assert address % 4096 == 0
        end = address + (100 if name == ".text" else len(data))
    (size,) = struct.unpack_from("<I", made, _PE + 24 + 56)
    assert end <= size < end + 4096
    assert struct.unpack_from("<I", made, _PE + 24 + 64) == (0,)
    assert append(stub(), parts) == made
    # symbols behind the stub are left out: what no section has, no signature covers
    assert append(stub() + b"symbols" * 99, parts) == made
    assert sum(len(data) + -len(data) % 512 for _, data in found.values()) + _HEADERS == len(made)
    assert append(stub(), [*parts[:2], (".linux", b"x" * 100_001)]) != made


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (b"", "no program"),
        (b"MZ", "no program"),
        (b"\x7fELF" + stub()[4:], "no program"),
        (stub().replace(b"PE\0\0", b"PX\0\0"), "no PE header"),
        (stub().replace(b"\x0b\x02", b"\x0b\x01"), "not for 64 bits"),
        (stub(sections=16), "no room"),
    ],
)
def test_what_is_no_stub_is_refused(program: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        append(program, [(".linux", b"kernel")])
