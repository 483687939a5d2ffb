"""What a machine has seen and does not go below: a release per line, a sequence of revocations.

The numbers in the file only rise. The file is replaced whole, so that a crash leaves the old or the
new one, and a damaged one is an error, never a fresh start. It is no defence against whoever may
write it: crypto/README.md, section "Floors", says what that means.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from crypto.atomic import AtomicFile
from crypto.cbor import decode, encode
from crypto.errors import FormatError, KeyFileError, PolicyError, UnavailableError, WriteError
from crypto.labels import FLOORS
from crypto.private_file import read_private_file
from crypto.sm3 import DIGEST_BYTES, sm3

MAX_LINES: Final = 512
MAX_BYTES: Final = 64 * 1024
MAX_INTEGER: Final = 2**53 - 1

_LINE: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_RELEASES: Final = "releases"
_REVOCATIONS: Final = "revocation_sequence"


@dataclass(frozen=True, slots=True)
class Floors:
    """The least numbers that are still accepted.

    Attributes:
        releases: the least release by line; a line that is not there has none.
        revocation_sequence: the highest number of a list of revocations that was seen, or 0.
        is_new: there is no file yet.
    """

    releases: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    revocation_sequence: int = 0
    is_new: bool = False

    def release(self, line: str) -> int:
        """Return the least release of a line that is accepted; 0 for a line never seen."""
        return self.releases.get(line, 0)


class FloorStore:
    """The file of floors of one machine; several processes may share it.

    Attributes:
        path: the file. Beside it lies a hidden one of the same name with `.lock`, which is empty.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        """Name the file.

        Args:
            path: the file, in a folder that only the service's user may write.
            create: an absent file means that nothing was seen yet. Without this it is an error,
                because deleting the file must not be a way to go back.
        """
        self.path = path
        self._create = create

    def read(self) -> Floors:
        """Return the floors.

        Raises:
            PolicyError: `floors-missing`: there is no file and it may not be made;
                `floors-unsafe`: it is no regular file, or not this user's alone.
            FormatError: it is damaged.
            UnavailableError: it cannot be read.
        """
        try:
            data = read_private_file(self.path, max_bytes=MAX_BYTES)
        except KeyFileError as error:
            if error.reason == "missing" and self._create:
                return Floors(is_new=True)
            raise _unreadable(error) from None
        return decode_floors(bytes(data))

    def raise_to(self, line: str, release: int) -> Floors:
        """Raise the floor of a line to `release`; one that is higher stays. Return the floors.

        Raises:
            ValueError: no such line or release can exist, or there are too many lines.
            WriteError: the file cannot be written; it is what it was.
            PolicyError, FormatError, UnavailableError: as `read`.
        """
        return self._raise(Floors({line: release}))

    def raise_revocations(self, sequence: int) -> Floors:
        """Raise the highest sequence number seen; one that is higher stays. Return the floors.

        Raises:
            ValueError: no such number can exist.
            WriteError: the file cannot be written; it is what it was.
            PolicyError, FormatError, UnavailableError: as `read`.
        """
        return self._raise(Floors(revocation_sequence=sequence))

    def _raise(self, least: Floors) -> Floors:
        """Write the greater of each number, if that is any change."""
        encode_floors(least)  # a number that cannot be is refused even where it changes nothing
        with self._locked():
            old = self.read()
            names = old.releases.keys() | least.releases.keys()
            new = Floors(
                {name: max(old.release(name), least.release(name)) for name in names},
                max(old.revocation_sequence, least.revocation_sequence),
            )
            if new == old:
                return old
            data = encode_floors(new)
            with AtomicFile(self.path, force=True, mode=0o600) as file:
                file.create()
                file.write_at(0, data)
                file.commit()
            return new

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock that writers share; it goes with the process that holds it."""
        path = self.path.with_name(f".{self.path.name}.lock")
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(path, flags, 0o600)
        except OSError as error:
            raise WriteError(f"{path} cannot be locked: {error.strerror or error}") from error
        try:
            # On a file of its own: the file of floors is another one after each change.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def encode_floors(floors: Floors) -> bytes:
    """Return the bytes of the file.

    Raises:
        ValueError: a line or a number that cannot be, or too many lines.
    """
    body = FLOORS + encode({_RELEASES: floors.releases, _REVOCATIONS: floors.revocation_sequence})
    data = body + sm3(body)
    try:
        decode_floors(data)
    except FormatError as error:
        raise ValueError(f"such floors cannot be written: {error.rule}") from None
    return data


def decode_floors(unverified_data: bytes) -> Floors:
    """Return the floors that a file states.

    Raises:
        FormatError: a rule of the CBOR subset, `floors-size`, `floors-label`, `floors-digest`,
            `floors-map`, `floors-line` or `floors-range`.
    """
    if len(unverified_data) > MAX_BYTES:
        raise FormatError(0, "floors-size")
    if not unverified_data.startswith(FLOORS):
        raise FormatError(0, "floors-label")
    end = max(len(FLOORS), len(unverified_data) - DIGEST_BYTES)
    if sm3(unverified_data[:end]) != unverified_data[end:]:
        raise FormatError(end, "floors-digest")
    start = len(FLOORS)
    try:
        value = decode(unverified_data[start:end])
    except FormatError as error:
        raise FormatError(start + error.offset, error.rule) from None
    if not isinstance(value, dict) or value.keys() != {_RELEASES, _REVOCATIONS}:
        raise FormatError(start, "floors-map")
    releases, sequence = value[_RELEASES], value[_REVOCATIONS]
    if not isinstance(releases, dict) or len(releases) > MAX_LINES:
        raise FormatError(start, "floors-map")
    floors = {}
    for line, release in releases.items():
        if not isinstance(line, str) or not _LINE.fullmatch(line):
            raise FormatError(start, "floors-line")
        floors[line] = _number(release, 1, start)
    return Floors(MappingProxyType(floors), _number(sequence, 0, start))


def _number(value: object, least: int, start: int) -> int:
    """Return a number of the file that is within its range."""
    if type(value) is not int or not least <= value <= MAX_INTEGER:
        raise FormatError(start, "floors-range")
    return value


def _unreadable(error: KeyFileError) -> PolicyError | FormatError | UnavailableError:
    """Return what it means for floors that their file could not be read as a private one."""
    if error.reason == "missing":
        return PolicyError("floors-missing", f"the file of floors is gone: {error}")
    if error.reason == "unreadable":
        return UnavailableError(str(error))
    if error.reason == "size":
        return FormatError(0, "floors-size")
    return PolicyError("floors-unsafe", str(error))
