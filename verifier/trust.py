"""The trust file: what an auditor relies on (crypto/README.md, section The trust file)."""

from __future__ import annotations

import binascii

from verifier.errors import DIGITS, HEX, Any, MalformedError, require, spelt
from verifier.objects import LINE_NAME
from verifier.sm2 import PublicKey
from verifier.sm3 import labelled
from verifier.toml import MAX_NUMBER, Table, parse

ROLES = ("weights", "software", "attest", "witness", "revoke", "unseal")
_TABLES = ("policy", "keys", "lines", "revocations", "logs")
_NOTHING = object()


class Key:
    """A key with its role and its window in seconds; the end is the first second after it."""

    def __init__(self, name: str, table: Table) -> None:
        _only(table, "role", "public_key", "not_before", "not_after")
        self.name = name
        self.role: str = _get(table, "role", str)
        require(self.role in ROLES, "role")
        self.public = _public_key(_get(table, "public_key", str))
        self.not_before: int | None = None
        self.not_after: int | None = None

    def set_window(self, table: Table) -> None:
        """Read what stands behind the key, which must be new (MalformedError)."""
        self.not_before = _instant(table, "not_before")
        self.not_after = _instant(table, "not_after")
        if self.not_before is not None and self.not_after is not None:
            require(self.not_before < self.not_after, "window")


class Line:
    """Who may sign the releases of a line, how many must, and the lowest one that counts."""

    def __init__(self, table: Table, keys: list[Key]) -> None:
        _only(table, "signers", "threshold", "minimum_release")
        names = _get(table, "signers", list)
        known = {key.name: key.public.key_id for key in keys if key.role == "weights"}
        self.signer_ids = {known[name] for name in names if name in known}
        require(len(self.signer_ids) == len(names) > 0, "signers")
        self.threshold = _number(table, "threshold", 1, len(names))
        self.minimum_release = _number(table, "minimum_release", 1, MAX_NUMBER, 1)


class Trust:
    """A trust file that has been read."""

    def __init__(self, data: bytes) -> None:
        root = parse(data)
        self.digest = labelled("windhover/trust;v=1", data)
        self.keys: dict[bytes, Key] = {}
        self.logs: dict[bytes, str] = {}
        _only(root, "version", *_TABLES)
        require(_get(root, "version", int) == 1, "version")
        policy, keys, lines, revocations, logs = (_get(root, name, dict, {}) for name in _TABLES)
        _only(policy, "require_signed", "require_sealed")
        for name in policy:
            _get(policy, name, bool)
        for tables in (keys, lines, logs):
            require(all(isinstance(table, dict) for table in tables.values()), "kind")
        for name, table in keys.items():
            key = Key(name, table)
            require(key.public.key_id not in self.keys, "duplicate-id")
            key.set_window(table)
            self.keys[key.public.key_id] = key
        self.lines: dict[str, Line] = {}
        for name, table in lines.items():
            require(spelt(name, *LINE_NAME), "line-name")
            self.lines[name] = Line(table, list(self.keys.values()))
        _only(revocations, "required", "minimum_sequence", "maximum_age_days")
        self.revocations_required = _get(revocations, "required", bool, "revocations" in root)
        self.minimum_sequence = _number(revocations, "minimum_sequence", 0, MAX_NUMBER, 0)
        self.maximum_age_days = _number(revocations, "maximum_age_days", 1, 36_500, 0)
        if self.revocations_required:
            require(any(key.role == "revoke" for key in self.keys.values()), "no-revoke-key")
        else:
            require(not self.minimum_sequence and not self.maximum_age_days, "not-required")
        for name, table in logs.items():
            _only(table, "id")
            text = _get(table, "id", str)
            require(len(text) == 64 and spelt(text, HEX), "log-id")
            require(bytes.fromhex(text) not in self.logs, "duplicate-id")
            self.logs[bytes.fromhex(text)] = name


def seconds_of(instant: str) -> int | None:
    """Return an instant YYYY-MM-DDThh:mm:ssZ as seconds since 1970, None for any other text."""
    form = "".join("0" if sign in DIGITS else sign for sign in instant)
    if form != "0000-00-00T00:00:00Z":
        return None
    places = ((0, 4), (5, 7), (8, 10), (11, 13), (14, 16), (17, 19))
    year, month, day, hour, minute, second = (int(instant[low:high]) for low, high in places)
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    days = (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    if year < 1970 or not 1 <= month <= 12 or not 1 <= day <= days[month - 1]:
        return None
    if hour > 23 or minute > 59 or second > 59:
        return None
    before = year - 1
    leap_days = before // 4 - before // 100 + before // 400 - 477  # those before 1970
    date = 365 * (year - 1970) + leap_days + sum(days[: month - 1]) + day - 1
    return ((24 * date + hour) * 60 + minute) * 60 + second


def _only(table: Table, *names: str) -> None:
    require(table.keys() <= set(names), "unknown-key")


def _get(table: Table, name: str, kind: type, default: object = _NOTHING) -> Any:
    """Return a value of one kind (MalformedError)."""
    value = table.get(name, default)
    require(value is not _NOTHING, "missing-key")
    require(name not in table or type(value) is kind, "kind")
    return value


def _number(table: Table, name: str, low: int, high: int, default: int | None = None) -> int:
    value: int = _get(table, name, int, _NOTHING if default is None else default)
    require(name not in table or low <= value <= high, "range")
    return value


def _instant(table: Table, name: str) -> int | None:
    if name not in table:
        return None
    seconds = seconds_of(_get(table, name, str))
    require(seconds is not None, "instant")
    return seconds


def _public_key(text: str) -> PublicKey:
    try:
        der = binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
        require(binascii.b2a_base64(der, newline=False).decode("ascii") == text, "public-key")
        return PublicKey.from_spki(der)
    except (MalformedError, ValueError):
        raise MalformedError("public-key") from None
