"""The list of the files of a release, as a file that people can read and one key signs.

Source: crypto/README.md, section "Software".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from appliance.software import SoftwareFile
from crypto.errors import FormatError, UnavailableError
from crypto.labels import SOFTWARE_LIST_FILE
from crypto.release import MAX_INTEGER
from crypto.sm3 import sm3
from crypto.software import MAX_FILES

MAX_LIST_BYTES: Final = 16 << 20
MAX_PATH_BYTES: Final = 1024
MIN_PATH_BYTES: Final = 3
PLACES: Final = frozenset({"app", "site", "python", "lib", "kernels"})
"""What a path of the list begins with."""

_HEAD: Final = b"windhover-software-list 1"
_LINE: Final = re.compile(r"([0-7]{4}) (0|[1-9][0-9]{0,15}) ([0-9a-f]{64}) ([^\n]+)", re.ASCII)
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f]")
_KERNELS: Final = "kernels"


def encode_list(files: Iterable[SoftwareFile]) -> bytes:
    """Return the file of a list, whatever order the files come in.

    Raises:
        UnavailableError: no list can have them; the message names the rule.
    """
    ordered = sorted(files, key=_key)
    lines = [_HEAD]
    for file in ordered:
        start = f"{file.mode:04o} {file.length_bytes} {file.digest.hex()} "
        lines.append(start.encode("ascii") + _key(file))
    data = b"\n".join([*lines, b""])
    try:
        read = parse_list(data)
    except FormatError as error:
        line = data[error.offset :].partition(b"\n")[0]
        raise UnavailableError(f"no list can have these files: {error.rule}: {line!r}") from None
    if read != tuple(ordered):
        raise UnavailableError("the list does not read as it was written")
    return data


def parse_list(unverified_data: bytes) -> tuple[SoftwareFile, ...]:
    """Return the files of a list, in its order.

    Raises:
        FormatError: a rule of the list.
    """
    if len(unverified_data) > MAX_LIST_BYTES:
        raise FormatError(MAX_LIST_BYTES, "list-bytes")
    if unverified_data.partition(b"\n")[0] != _HEAD:
        raise FormatError(0, "list-head")
    if not unverified_data.endswith(b"\n"):
        raise FormatError(unverified_data.rfind(b"\n") + 1, "list-end")
    if not 1 <= unverified_data.count(b"\n") - 1 <= MAX_FILES:
        raise FormatError(0, "list-files")
    files: list[SoftwareFile] = []
    offset, total, before = len(_HEAD) + 1, 0, b""
    for line in unverified_data[offset:-1].split(b"\n"):
        file = _parse_line(line, offset)
        total += file.length_bytes
        if total > MAX_INTEGER:
            raise FormatError(offset, "list-line")
        path = _key(file)
        if path <= before:
            raise FormatError(offset, "list-duplicate" if path == before else "list-order")
        files.append(file)
        before = path
        offset += len(line) + 1
    return tuple(files)


def list_file_digest(data: bytes) -> bytes:
    """Return the 32 bytes by which a manifest names the file of a list."""
    return sm3(SOFTWARE_LIST_FILE + data)


def kernels_of(files: Iterable[SoftwareFile]) -> tuple[str, ...]:
    """Return the targets of the prepared kernels in a list, ascending."""
    parts = (file.path.split("/") for file in files)
    found = {inner[1] for inner in parts if inner[0] == _KERNELS and len(inner) > 2}
    return tuple(sorted({name.rpartition("-")[0] for name in found}))


def _parse_line(line: bytes, offset: int) -> SoftwareFile:
    """Return the file of one line, which begins at `offset` (FormatError)."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        raise FormatError(offset, "list-utf-8") from None
    match = _LINE.fullmatch(text)
    if match is None or int(match[2]) > MAX_INTEGER:
        raise FormatError(offset, "list-line")
    parts = match[4].split("/")
    if (
        not MIN_PATH_BYTES <= len(match[4].encode("utf-8")) <= MAX_PATH_BYTES
        or _CONTROL.search(match[4])
        or len(parts) < 2
        or parts[0] not in PLACES
        or not {"", ".", ".."}.isdisjoint(parts)
    ):
        raise FormatError(offset, "list-path")
    return SoftwareFile(match[4], int(match[1], 8), int(match[2]), bytes.fromhex(match[3]))


def _key(file: SoftwareFile) -> bytes:
    """Return the bytes by which files are ordered, also those that are no UTF-8."""
    return file.path.encode("utf-8", "surrogateescape")
