"""Attestations that can be fetched: bundles while there is room, statements from the log for ever.

An id names the admission, so that it can be told before the answer begins, and found again after a
restart. Whoever asks for one that is not theirs hears the same as for one that never was.
"""

from __future__ import annotations

import hmac
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from appliance.log.layout import ADMISSION, CLOSING
from crypto.admission import decode_admission
from crypto.cose import decode_sign1
from crypto.errors import FormatError
from crypto.evidence import MAX_OBJECT_BYTES

if TYPE_CHECKING:
    from appliance.log.log import Log

_ID: Final = re.compile(r"att-(0|[1-9][0-9]{0,14})-([0-9a-f]{8})")
_TAG_BYTES: Final = 4
_MAX_KNOWN: Final = 1 << 17
_MAX_LOOK: Final = 8192
"""How many entries after an admission are looked at for its statement."""


def attestation_id(index: int, request_id: bytes) -> str:
    """Return the id of the attestation of an admission."""
    return f"att-{index}-{request_id[:_TAG_BYTES].hex()}"


@dataclass(frozen=True, slots=True)
class Attestation:
    """What is there of an attestation.

    Attributes:
        id: its id.
        sequence: of the statement in the log.
        statement: the signed object.
        bundle: encoded; None where it is not kept any more.
    """

    id: str
    sequence: int
    statement: bytes
    bundle: bytes | None


@dataclass(frozen=True, slots=True)
class _Kept:
    principal: bytes
    found: Attestation
    until_s: float

    @property
    def num_bytes(self) -> int:
        return len(self.found.bundle or b"") + len(self.found.statement)


class AttestationStore:
    """Bundles in memory, and the way to their statements in the log. Any thread may call."""

    def __init__(
        self,
        log: Log,
        *,
        max_bytes: int,
        ttl_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start without bundles.

        Args:
            log: where statements are.
            max_bytes: of all bundles together; the oldest go first.
            ttl_s: how long a bundle is kept.
            clock: in seconds.
        """
        self._log = log
        self._max_bytes = max_bytes
        self._ttl_s = ttl_s
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._num_bytes = 0
        self._closings: OrderedDict[int, int] = OrderedDict()
        """Where the statements of this process are, by the index of their admission."""

    @property
    def num_bytes(self) -> int:
        """How much the bundles take."""
        return self._num_bytes

    def put(self, admission: int, principal: bytes, attestation: Attestation) -> None:
        """Keep the attestation of an answer, as long as there is room."""
        with self._lock:
            self._closings[admission] = attestation.sequence
            if len(self._closings) > _MAX_KNOWN:
                self._closings.popitem(last=False)
            kept = _Kept(principal, attestation, self._clock() + self._ttl_s)
            self._kept[attestation.id] = kept
            self._num_bytes += kept.num_bytes
            self._drop()

    def find(self, name: str, principal: bytes) -> Attestation | None:
        """Return an attestation of a principal; None where there is none, or not yet.

        Raises:
            LogUnavailableError: its place in the log is in the archive.
            LogDamageError, OSError: as `LogFiles.entry`.
        """
        match = _ID.fullmatch(name)
        if match is None:
            return None
        with self._lock:
            self._drop()
            kept = self._kept.get(name)
        if kept is not None:
            return kept.found if hmac.compare_digest(kept.principal, principal) else None
        return self._from_log(int(match[1]), bytes.fromhex(match[2]), principal, name)

    def _drop(self) -> None:
        """Let go what is too old or too much."""
        now = self._clock()
        while self._kept:
            oldest = next(iter(self._kept.values()))
            if oldest.until_s > now and self._num_bytes <= self._max_bytes:
                break
            self._kept.popitem(last=False)
            self._num_bytes -= oldest.num_bytes

    def _from_log(self, index: int, tag: bytes, principal: bytes, name: str) -> Attestation | None:
        files = self._log.files
        try:
            entry = files.entry(index)
        except IndexError:
            return None
        if entry.kind != ADMISSION:
            return None
        try:
            admission = decode_admission(
                decode_sign1(entry.body, max_bytes=MAX_OBJECT_BYTES).payload
            )
        except FormatError:
            return None
        is_theirs = hmac.compare_digest(admission.principal, principal)
        if not (is_theirs and hmac.compare_digest(admission.request_id[:_TAG_BYTES], tag)):
            return None
        with self._lock:
            known = self._closings.get(index)
        if known is None and index in files.last.growth.open_admissions:
            return None
        size = files.head.size
        places = range(index + 1, min(size, index + 1 + _MAX_LOOK)) if known is None else [known]
        for place in places:
            entry = files.entry(place)
            if entry.kind == CLOSING and entry.refers == index:
                return Attestation(name, place, entry.body, None)
        return None
