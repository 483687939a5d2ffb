"""The trust file: which keys, lines and logs the one who runs the software relies on.

Nothing in it is a default of the software: a key that the file does not name is trusted for
nothing. Keys, ranges and the order of the checks stand in crypto/README.md, section "Trust policy".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Self, TypeVar

from crypto.errors import FormatError
from crypto.labels import TRUST
from crypto.sm3 import sm3
from crypto.trust_toml import MAX_INTEGER, Entry, Table, parse_toml
from crypto.trust_values import (
    ROLES,
    Line,
    PinnedLog,
    RevocationRules,
    TrustedKey,
    parse_instant,
    parse_public_key,
)

VERSION: Final = 1
MAX_AGE_DAYS: Final = 36_500
DAY_S: Final = 86_400

_LINE_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]*")
_LOG_ID: Final = re.compile(r"[0-9a-f]{64}")
_T = TypeVar("_T", bool, int, str, "tuple[str, ...]")
_Parsed = TypeVar("_Parsed")


@dataclass(frozen=True, slots=True)
class TrustFile:
    """A trust file that was read.

    Attributes:
        digest: 32 bytes, SM3 of a label and the file's bytes: which policy was in force.
        require_signed: unsigned weights are refused.
        require_sealed: weights that are not sealed are refused.
        keys: the keys by key id.
        lines: the lines by name.
        revocations: what is asked of the list of revocations.
        logs: the pinned logs, by id.
    """

    digest: bytes
    require_signed: bool
    require_sealed: bool
    keys: Mapping[bytes, TrustedKey]
    lines: Mapping[str, Line]
    revocations: RevocationRules
    logs: Mapping[bytes, PinnedLog]

    @classmethod
    def parse(cls, unverified_data: bytes) -> Self:
        """Read the bytes of a trust file.

        Raises:
            FormatError: a rule of the TOML subset or of the trust file; nothing is ignored.
        """
        root = _Reader(parse_toml(unverified_data), "version policy keys lines revocations logs")
        if root.required("version", int) != VERSION:
            raise FormatError(root.value_offset("version"), "version")
        policy = _Reader(root.table("policy"), "require_signed require_sealed")
        require_signed = policy.optional("require_signed", bool, default=True)
        require_sealed = policy.optional("require_sealed", bool, default=True)
        named = _read_keys(root.table("keys"))
        keys = {key.key_id: key for key in named.values()}
        return cls(
            digest=sm3(TRUST + unverified_data),
            require_signed=require_signed,
            require_sealed=require_sealed,
            keys=keys,
            lines=_read_lines(root.table("lines"), named),
            revocations=_read_revocations(root.table("revocations"), keys),
            logs=_read_logs(root.table("logs")),
        )

    def key(self, key_id: bytes, role: str) -> TrustedKey | None:
        """Return the key of this id if the file lists it under `role`."""
        key = self.keys.get(key_id)
        return key if key is not None and key.role == role else None


class _Reader:
    """A table whose keys are all known and whose values are asked for by kind."""

    def __init__(self, table: Table | None, known: str) -> None:
        self.is_present = table is not None
        self._table = table or Table(0)
        for name, entry in self._table.entries.items():
            if name not in known.split():
                raise FormatError(entry.offset, "unknown-key")

    def table(self, name: str) -> Table | None:
        """Return the table of that name, or None where there is none."""
        entry = self._table.entries.get(name)
        if isinstance(entry, Entry):
            raise FormatError(entry.offset, "kind")
        return entry

    def required(self, name: str, kind: type[_T]) -> _T:
        """Return a value that must be there."""
        entry = self._table.entries.get(name)
        if entry is None:
            raise FormatError(self._table.offset, "missing-key")
        # A boolean is an int to isinstance, hence the comparison of types.
        if isinstance(entry, Table) or type(entry.value) is not kind:
            raise FormatError(entry.offset, "kind")
        return entry.value

    def optional(self, name: str, kind: type[_T], *, default: _T) -> _T:
        """Return a value that may be absent."""
        return self.required(name, kind) if name in self._table.entries else default

    def integer(self, name: str, least: int, most: int, *, default: int | None = None) -> int:
        """Return an integer within its range; without a default it must be there."""
        if default is not None and name not in self._table.entries:
            return default
        number = self.required(name, int)
        if not least <= number <= most:
            raise FormatError(self.value_offset(name), "range")
        return number

    def parsed(self, name: str, parse: Callable[[str], _Parsed], rule: str) -> _Parsed:
        """Return what `parse` makes of a text that must be there."""
        text = self.required(name, str)
        try:
            return parse(text)
        except ValueError:
            raise FormatError(self.value_offset(name), rule) from None

    def instant(self, name: str) -> int | None:
        """Return an instant, or None where there is none."""
        if name not in self._table.entries:
            return None
        return self.parsed(name, parse_instant, "instant")

    def value_offset(self, name: str) -> int:
        """Return where the value of `name` stands; where there is none, the table."""
        entry = self._table.entries.get(name)
        return entry.value_offset if isinstance(entry, Entry) else self._table.offset


def _named_tables(table: Table | None) -> dict[str, Table]:
    """Return the tables in a table that holds nothing else."""
    tables = {}
    for name, entry in (table or Table(0)).entries.items():
        if isinstance(entry, Entry):
            raise FormatError(entry.offset, "kind")
        tables[name] = entry
    return tables


def _read_keys(table: Table | None) -> dict[str, TrustedKey]:
    """Return the keys by name; none stands there twice."""
    keys: dict[str, TrustedKey] = {}
    key_ids = set()
    for name, entries in _named_tables(table).items():
        reader = _Reader(entries, "role public_key not_before not_after")
        role = reader.required("role", str)
        if role not in ROLES:
            raise FormatError(reader.value_offset("role"), "role")
        public_key = reader.parsed("public_key", parse_public_key, "public-key")
        if public_key.key_id in key_ids:
            raise FormatError(reader.value_offset("public_key"), "duplicate-id")
        key_ids.add(public_key.key_id)
        not_before, not_after = reader.instant("not_before"), reader.instant("not_after")
        if not_before is not None and not_after is not None and not_after <= not_before:
            raise FormatError(reader.value_offset("not_after"), "window")
        keys[name] = TrustedKey(name, role, public_key, not_before, not_after)
    return keys


def _read_lines(table: Table | None, keys: Mapping[str, TrustedKey]) -> dict[str, Line]:
    """Return the lines by name."""
    lines = {}
    for name, entries in _named_tables(table).items():
        if not _LINE_NAME.fullmatch(name):
            raise FormatError(entries.offset, "line-name")
        reader = _Reader(entries, "signers threshold minimum_release")
        signers: tuple[str, ...] = reader.required("signers", tuple)
        signer_ids = frozenset(
            keys[signer].key_id
            for signer in signers
            if signer in keys and keys[signer].role == "weights"
        )
        # Fewer ids than names: a name twice, a key that is not there, or one of another role.
        if not signers or len(signer_ids) != len(signers):
            raise FormatError(reader.value_offset("signers"), "signers")
        threshold = reader.integer("threshold", 1, len(signers))
        minimum_release = reader.integer("minimum_release", 1, MAX_INTEGER, default=1)
        lines[name] = Line(name, signer_ids, threshold, minimum_release)
    return lines


def _read_revocations(table: Table | None, keys: Mapping[bytes, TrustedKey]) -> RevocationRules:
    """Return what is asked of the list; without the table, nothing."""
    reader = _Reader(table, "required minimum_sequence maximum_age_days")
    required = reader.optional("required", bool, default=reader.is_present)
    minimum_sequence = reader.integer("minimum_sequence", 0, MAX_INTEGER, default=0)
    days = reader.integer("maximum_age_days", 1, MAX_AGE_DAYS, default=0)
    if not required and (minimum_sequence or days):
        # Whoever takes the list away would take the condition away with it.
        raise FormatError(reader.value_offset("required"), "not-required")
    if required and not any(key.role == "revoke" for key in keys.values()):
        raise FormatError(reader.value_offset("required"), "no-revoke-key")
    return RevocationRules(required, minimum_sequence, days * DAY_S or None)


def _read_logs(table: Table | None) -> dict[bytes, PinnedLog]:
    """Return the pinned logs by id."""
    logs: dict[bytes, PinnedLog] = {}
    for name, entries in _named_tables(table).items():
        reader = _Reader(entries, "id")
        log_id = reader.parsed("id", _parse_log_id, "log-id")
        if log_id in logs:
            raise FormatError(reader.value_offset("id"), "duplicate-id")
        logs[log_id] = PinnedLog(name, log_id)
    return logs


def _parse_log_id(text: str) -> bytes:
    """Return the 32 bytes of 64 hexadecimal digits in lower case."""
    if not _LOG_ID.fullmatch(text):
        raise ValueError("not 64 hexadecimal digits in lower case")
    return bytes.fromhex(text)
