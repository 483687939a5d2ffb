"""Keys while the service runs: looked up in constant time, read again when the file changes.

When the file cannot be read any more, nothing of it is kept: a key that was just withdrawn must not
go on working because the new file is broken. Then nobody is answered, and `/ready` says why.
"""

from __future__ import annotations

import hmac
import os
import threading
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

from appliance.service.key_file import KEY_TEXT, KeyEntry, key_digest, read_keys
from appliance.service.principals import Principal
from crypto.errors import KeyFileError
from engine.errors import ConfigError

CHECK_NS: Final = 1_000_000_000
"""How often the file is looked at, at most."""

_NOBODY: Final = (bytes(16), bytes(32))
"""Salt and digest that an unknown key is compared with, so that it costs what a known one costs."""


class KeysUnavailableError(Exception):
    """The file of keys cannot be used, so that nobody can be told from anybody."""


class KeyStore:
    """The keys in one file. Any thread may call."""

    def __init__(
        self,
        path: Path,
        *,
        now_s: Callable[[], float] = time.time,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """Read the file; one that cannot be read is no error yet.

        Args:
            path: the file.
            now_s: seconds since 1970-01-01 UTC, by which keys expire.
            monotonic_ns: the clock by which the file is looked at again.
        """
        self._path = path
        self._now_s = now_s
        self._monotonic_ns = monotonic_ns
        self._lock = threading.Lock()
        self._seen: tuple[int, ...] | None = None
        self._keys: Mapping[str, KeyEntry] = {}
        self._certificates: Mapping[bytes, KeyEntry] = {}
        self._failure: str | None = None
        self._check_at_ns = 0
        self.refresh()

    @property
    def failure(self) -> str | None:
        """Why the file cannot be used; None while it can."""
        self.refresh()
        return self._failure

    @property
    def num_active(self) -> int:
        """Number of entries that are accepted now."""
        self.refresh()
        now_s = int(self._now_s())
        entries = (*self._keys.values(), *self._certificates.values())
        return sum(entry.state(now_s) == "active" for entry in entries)

    def principal(self, text: str) -> Principal | None:
        """Return who has a key; None where nobody has it, or it is not accepted any more.

        Raises:
            KeysUnavailableError: the file cannot be used.
        """
        keys, _ = self._tables()
        match = KEY_TEXT.fullmatch(text)
        key_id, secret = match.groups() if match else ("", "")
        entry = keys.get(key_id)
        salt, digest = _NOBODY if entry is None else (entry.salt, entry.digest)
        fits = hmac.compare_digest(key_digest(salt, key_id, secret), digest)
        return self._accepted(entry) if fits else None

    def certificate(self, der: bytes) -> Principal | None:
        """Return who has a client certificate, which nginx has verified; errors as `principal`."""
        _, certificates = self._tables()
        return self._accepted(certificates.get(sha256(der).digest()))

    def refresh(self) -> None:
        """Read the file again if it has changed; it is looked at once a second at most."""
        if self._monotonic_ns() < self._check_at_ns:
            return
        with self._lock:
            now_ns = self._monotonic_ns()
            if now_ns < self._check_at_ns:
                return
            self._check_at_ns = now_ns + CHECK_NS
            seen = self._look()
            if seen == self._seen and self._failure is None:
                return
            # What is read may be newer than what was seen; then it is read once more.
            self._seen = seen
            try:
                entries = read_keys(self._path)
            except (KeyFileError, ConfigError) as error:
                self._failure = str(error)
                self._keys, self._certificates = {}, {}
                return
            self._keys = {entry.id: entry for entry in entries if not entry.is_certificate}
            self._certificates = {
                entry.digest: entry
                for entry in sorted(entries, key=lambda entry: entry.revoked_s is None)
                if entry.is_certificate
            }
            self._failure = None

    def _tables(self) -> tuple[Mapping[str, KeyEntry], Mapping[bytes, KeyEntry]]:
        self.refresh()
        with self._lock:
            if self._failure is not None:
                raise KeysUnavailableError(self._failure)
            return self._keys, self._certificates

    def _accepted(self, entry: KeyEntry | None) -> Principal | None:
        if entry is None or entry.state(int(self._now_s())) != "active":
            return None
        return entry.owner()

    def _look(self) -> tuple[int, ...]:
        """Return what tells one content of the file from another; nothing where there is none."""
        try:
            status = os.lstat(self._path)
        except OSError:
            return ()
        return (
            status.st_dev,
            status.st_ino,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
        )
