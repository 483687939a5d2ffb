"""What a `weights` key says about a model: the release of a line, its dates, what may run it.

Source: engine/vqf/FORMAT.md section 7.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from crypto.cbor import Encodable, encode
from crypto.cbor_map import CborMap
from crypto.errors import FormatError
from crypto.sm3 import DIGEST_BYTES

RELEASE_TYPE: Final = "windhover/release;v=1"
MAX_RELEASE_BYTES: Final = 1024
MAX_INTEGER: Final = (1 << 53) - 1
MAX_VERSION: Final = 0xFFFF
MAX_SUPERSEDED: Final = 64
MAX_LINE_CHARACTERS: Final = 64
LINE: Final = re.compile(r"[a-z0-9][a-z0-9._-]*")

_MODEL_DIGEST: Final = -70101
_LINE: Final = -70102
_RELEASE: Final = -70103
_NOT_BEFORE: Final = -70104
_EXPIRES: Final = -70105
_LEAST_RUNTIME: Final = -70106
_SUPERSEDES: Final = -70107
_REQUIRED: Final = frozenset(
    {_MODEL_DIGEST, _LINE, _RELEASE, _NOT_BEFORE, _LEAST_RUNTIME, _SUPERSEDES}
)
_OPTIONAL: Final = frozenset({_EXPIRES})


@dataclass(frozen=True, slots=True)
class Release:
    """One release of a line of models.

    Attributes:
        model_digest: 32 bytes, the identity of the model.
        line: 1..64 characters of `a-z 0-9 . _ -`, the first a letter or digit.
        release: its number in the line, 1 .. 2^53 - 1.
        not_before: seconds since 1970-01-01 UTC, 0 .. 2^53 - 1.
        expires: same unit, above not_before; None: never.
        least_runtime: major, minor, patch of the oldest runtime that may load the model.
        supersedes: at most 64 earlier releases of the line, ascending, that are withdrawn.
    """

    model_digest: bytes
    line: str
    release: int
    not_before: int
    expires: int | None
    least_runtime: tuple[int, int, int]
    supersedes: tuple[int, ...] = ()

    def encode(self) -> bytes:
        """Return the payload that is signed.

        Raises:
            ValueError: a value that `decode_release` would refuse; the message names the rule.
            TypeError: a value of a type that CBOR does not have here.
        """
        entries: dict[int, Encodable] = {
            _MODEL_DIGEST: self.model_digest,
            _LINE: self.line,
            _RELEASE: self.release,
            _NOT_BEFORE: self.not_before,
            _LEAST_RUNTIME: self.least_runtime,
            _SUPERSEDES: self.supersedes,
        }
        if self.expires is not None:
            entries[_EXPIRES] = self.expires
        data = encode(entries)
        try:
            decode_release(data)
        except FormatError as error:
            raise ValueError(f"no such release can be written: {error.rule}") from None
        return data


def decode_release(unverified_data: bytes | bytearray | memoryview) -> Release:
    """Return the release that a payload states.

    Raises:
        FormatError: a rule of the CBOR subset, of objects or of releases (crypto/README.md).
    """
    entries = CborMap(unverified_data, _REQUIRED, _OPTIONAL, max_bytes=MAX_RELEASE_BYTES)
    not_before = entries.integer(_NOT_BEFORE, 0, MAX_INTEGER)
    expires = entries.integer(_EXPIRES, 0, MAX_INTEGER) if _EXPIRES in entries else None
    if expires is not None and expires <= not_before:
        raise entries.refusal(_EXPIRES, "release-expiry")
    release = entries.integer(_RELEASE, 1, MAX_INTEGER)
    major, minor, patch = entries.integers(_LEAST_RUNTIME, counts=(3, 3), least=0, most=MAX_VERSION)
    supersedes = entries.integers(
        _SUPERSEDES, counts=(0, MAX_SUPERSEDED), least=1, most=MAX_INTEGER
    )
    if any(later <= earlier for earlier, later in pairwise(supersedes)):
        raise entries.refusal(_SUPERSEDES, "release-order")
    if supersedes and supersedes[-1] >= release:
        raise entries.refusal(_SUPERSEDES, "release-superseded")
    return Release(
        model_digest=entries.octets(_MODEL_DIGEST, DIGEST_BYTES, DIGEST_BYTES),
        line=entries.text(_LINE, LINE, MAX_LINE_CHARACTERS),
        release=release,
        not_before=not_before,
        expires=expires,
        least_runtime=(major, minor, patch),
        supersedes=supersedes,
    )
