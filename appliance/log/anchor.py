"""The anchor: the last head of a log, kept where whoever rolls back the log does not get at it.

Source: appliance/log/README.md, section "Anchor".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

from appliance.log.errors import LogDamageError
from crypto.atomic import AtomicFile
from crypto.cbor import encode
from crypto.cbor_map import CborMap
from crypto.errors import FormatError, KeyFileError, UnavailableError
from crypto.floors import Floors, decode_floors, encode_floors
from crypto.labels import LOG_ANCHOR
from crypto.private_file import read_private_file
from crypto.release import MAX_INTEGER
from crypto.sm3 import DIGEST_BYTES, sm3

MAX_BYTES: Final = 128 * 1024

_LOG_ID: Final = "log_id"
_SIZE: Final = "size"
_ROOT: Final = "root"
_FLOORS: Final = "floors"
_TIME: Final = "time_ms"
_KEYS: Final = frozenset({_LOG_ID, _SIZE, _ROOT, _FLOORS, _TIME})


@dataclass(frozen=True, slots=True)
class Anchor:
    """What is remembered of a log elsewhere.

    Attributes:
        log_id: 32 bytes.
        size: number of entries.
        root: 32 bytes, of the tree of that size.
        time_ms: of that checkpoint, milliseconds since 1970-01-01 UTC.
        floors: least release by line, and the highest sequence of revocations that was seen.
    """

    log_id: bytes
    size: int
    root: bytes
    time_ms: int
    floors: Floors = field(default_factory=Floors)

    def encode(self) -> bytes:
        """Return the bytes of the file."""
        body = LOG_ANCHOR + encode(
            {
                _LOG_ID: self.log_id,
                _SIZE: self.size,
                _ROOT: self.root,
                _FLOORS: encode_floors(self.floors),
                _TIME: self.time_ms,
            }
        )
        return body + sm3(body)


def decode_anchor(unverified_data: bytes) -> Anchor:
    """Return the anchor in the bytes of a file.

    Raises:
        FormatError: a rule of the CBOR subset, of objects or of floors, or `anchor-digest`.
    """
    end = len(unverified_data) - DIGEST_BYTES
    start = len(LOG_ANCHOR)
    body = unverified_data[: max(end, 0)]
    if not body.startswith(LOG_ANCHOR) or sm3(body) != unverified_data[end:]:
        raise FormatError(0, "anchor-digest")
    entries = CborMap(body[start:], _KEYS, max_bytes=MAX_BYTES, start=start)
    return Anchor(
        log_id=entries.octets(_LOG_ID, DIGEST_BYTES, DIGEST_BYTES),
        size=entries.integer(_SIZE, 1, MAX_INTEGER),
        root=entries.octets(_ROOT, DIGEST_BYTES, DIGEST_BYTES),
        time_ms=entries.integer(_TIME, 0, MAX_INTEGER),
        floors=decode_floors(entries.octets(_FLOORS, 0, MAX_BYTES)),
    )


class AnchorStore(Protocol):
    """A place for one anchor, outside of what could be rolled back together with the log."""

    def read(self) -> Anchor | None:
        """Return the anchor; None where there is none.

        Raises:
            LogDamageError: `anchor-damaged`.
            UnavailableError: the place cannot be asked.
        """
        ...

    def write(self, anchor: Anchor) -> None:
        """Replace the anchor, durably.

        Raises:
            WriteError, UnavailableError: it could not be; the old one may still be there.
        """
        ...


class FileAnchor:
    """An anchor in a file, which belongs on another volume than the log."""

    def __init__(self, path: Path) -> None:
        """Name the file; its folder is there already."""
        self.path = path

    def read(self) -> Anchor | None:
        """Return the anchor; None where there is no file.

        Raises:
            LogDamageError: `anchor-damaged`: it is none, or not this user's alone.
            UnavailableError: it cannot be read.
        """
        try:
            data = read_private_file(self.path, max_bytes=MAX_BYTES)
        except KeyFileError as error:
            if error.reason == "missing":
                return None
            if error.reason == "unreadable":
                raise UnavailableError(str(error)) from None
            raise LogDamageError("anchor-damaged", str(error)) from None
        try:
            return decode_anchor(bytes(data))
        except FormatError as error:
            raise LogDamageError(
                "anchor-damaged", f"is no anchor: {error}", file=self.path
            ) from None

    def write(self, anchor: Anchor) -> None:
        """Replace the file, durably.

        Raises:
            WriteError: the file system refused.
        """
        with AtomicFile(self.path, force=True, mode=0o600) as file:
            file.create()
            file.write_at(0, anchor.encode())
            file.commit()


def higher_floors(one: Floors, other: Floors) -> Floors:
    """Return the higher of each number of two."""
    lines = one.releases.keys() | other.releases.keys()
    releases = {line: max(one.release(line), other.release(line)) for line in sorted(lines)}
    return Floors(
        MappingProxyType(releases),
        max(one.revocation_sequence, other.revocation_sequence),
    )
