"""The file of API keys: what is known of each, and nothing from which a key can be had back.

A secret is 32 random bytes, so that trying all of them is out of reach whatever a try costs. A hash
that is slow on purpose would protect nothing more, and would let anybody keep the processor busy
with keys that do not exist: one HMAC-SM3 under a salt of its own is what a key is kept as.

A client certificate is an entry of the same kind, with the SHA-256 of its DER form in place of the
hash, as `openssl x509 -fingerprint -sha256` prints it.

Source: RFC 2104 (HMAC), RFC 4648 sections 5 and 6 (the alphabets of a key's text).
"""

from __future__ import annotations

import base64
import json
import re
import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from appliance.service.principals import LIMIT_NAMES, PRINCIPAL_BYTES, SCOPES, KeyLimits, Principal
from crypto.atomic import AtomicFile
from crypto.kdf import hmac_sm3
from crypto.labels import API_KEY
from crypto.private_file import read_private_file
from engine.errors import ConfigError

VERSION: Final = 1
MAX_FILE_BYTES: Final = 4 << 20
MAX_KEYS: Final = 4096
KEY_TEXT: Final = re.compile(r"wh-([a-z2-7]{8})-([A-Za-z0-9_-]{43})")

_ID: Final = re.compile(r"[a-z2-7]{8}")
_NAME: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f]{1,64}")
_HEX: Final = re.compile(r"[0-9a-f]*")
_SECRET_BYTES: Final = 32
_SALT_BYTES: Final = 16
_DIGEST_BYTES: Final = 32
_MAX_TIME_S: Final = 1 << 40
_MAX_LIMIT: Final = 1 << 31


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyEntry:
    """What the file says of one key.

    Attributes:
        id: 8 characters, the public part of the key.
        principal: 16 bytes.
        name: for the operator.
        scopes: some of `SCOPES`.
        created_s: seconds since 1970-01-01 UTC.
        expires_s: the first second at which it is not accepted any more; None for never.
        revoked_s: when it was withdrawn; None if it was not.
        shared: as of `Principal`.
        limits: as of `Principal`.
        salt: 16 bytes; no bytes for a certificate.
        digest: 32 bytes, of the secret under the salt, or of a certificate.
    """

    id: str
    principal: bytes
    name: str
    scopes: tuple[str, ...]
    created_s: int
    expires_s: int | None = None
    revoked_s: int | None = None
    shared: bool = False
    limits: KeyLimits = field(default_factory=KeyLimits)
    salt: bytes
    digest: bytes

    @property
    def is_certificate(self) -> bool:
        """Whether it is a client certificate, not a key."""
        return not self.salt

    def state(self, now_s: int) -> str:
        """Return `active`, `expired` or `revoked`."""
        if self.revoked_s is not None:
            return "revoked"
        return "expired" if self.expires_s is not None and now_s >= self.expires_s else "active"

    def owner(self) -> Principal:
        """Return who asks with it."""
        return Principal(
            id=self.principal,
            name=self.name,
            scopes=frozenset(self.scopes),
            shared=self.shared,
            key_id=self.id,
            limits=self.limits,
        )

    def as_json(self) -> dict[str, Any]:
        """Return its object in the file."""
        value: dict[str, Any] = {
            "id": self.id,
            "principal": self.principal.hex(),
            "name": self.name,
            "scopes": list(self.scopes),
            "created_s": self.created_s,
        }
        for name in ("expires_s", "revoked_s"):
            if getattr(self, name) is not None:
                value[name] = getattr(self, name)
        if self.shared:
            value["shared"] = True
        limits = {name: most for name, most in asdict(self.limits).items() if most is not None}
        if limits:
            value["limits"] = limits
        if self.salt:
            value["salt"] = self.salt.hex()
        return value | {"digest": self.digest.hex()}


class NewKey(NamedTuple):
    """A key that was just made: the only moment at which its text is known."""

    entry: KeyEntry
    text: str


def new_id() -> str:
    """Return a random public part of a key."""
    return base64.b32encode(secrets.token_bytes(5)).decode("ascii").lower()


def new_key(**facts: Any) -> NewKey:  # noqa: ANN401  (the fields of KeyEntry)
    """Make a key; the fields are those of `KeyEntry` without id, salt and digest."""
    key_id, salt = new_id(), secrets.token_bytes(_SALT_BYTES)
    secret = base64.urlsafe_b64encode(secrets.token_bytes(_SECRET_BYTES)).decode("ascii")
    secret = secret.rstrip("=")
    digest = key_digest(salt, key_id, secret)
    return NewKey(KeyEntry(id=key_id, salt=salt, digest=digest, **facts), f"wh-{key_id}-{secret}")


def key_digest(salt: bytes, key_id: str, secret: str) -> bytes:
    """Return the 32 bytes that a secret is kept as."""
    return hmac_sm3(salt, API_KEY, key_id.encode("ascii"), secret.encode("ascii"))


def read_keys(path: Path) -> tuple[KeyEntry, ...]:
    """Return the entries of a file, which is its owner's alone.

    Raises:
        KeyFileError: it cannot be read, or others can read it.
        ConfigError: what is in it is no file of keys.
    """
    content = bytes(read_private_file(path, max_bytes=MAX_FILE_BYTES))
    try:
        return _parse(content)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def write_keys(path: Path, entries: tuple[KeyEntry, ...], *, force: bool) -> None:
    """Write the file in one piece, for its owner alone.

    Raises:
        ConfigError: there are too many.
        WriteError: the file system refused.
    """
    if len(entries) > MAX_KEYS:
        raise ConfigError(f"{path}: more than {MAX_KEYS} keys")
    value = {"version": VERSION, "keys": [entry.as_json() for entry in entries]}
    content = (json.dumps(value, indent=1) + "\n").encode("ascii")
    _parse(content)
    with AtomicFile(path, force=force, mode=0o600) as file:
        file.create()
        file.write_at(0, content)
        file.commit()


def _parse(content: bytes) -> tuple[KeyEntry, ...]:
    try:
        value = json.loads(content.decode("utf-8"), object_pairs_hook=_members)
    except (ValueError, RecursionError):
        raise ConfigError("is no JSON") from None
    if not isinstance(value, dict) or value.keys() != {"version", "keys"}:
        raise ConfigError("is no file of keys; make one with `windhover apikey new`")
    if value["version"] != VERSION or isinstance(value["version"], bool):
        raise ConfigError(f"has a version other than {VERSION}")
    listed = value["keys"]
    if not isinstance(listed, list) or len(listed) > MAX_KEYS:
        raise ConfigError(f"`keys` is no list of at most {MAX_KEYS}")
    entries = tuple(_entry(number, each) for number, each in enumerate(listed))
    for name, seen in (
        ("id", [entry.id for entry in entries]),
        ("digest", [entry.digest for entry in entries if entry.state(0) != "revoked"]),
    ):
        if len(set(seen)) != len(seen):
            raise ConfigError(f"two keys have the same {name}")
    return entries


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a name stands twice")
    return members


def _entry(number: int, value: object) -> KeyEntry:
    """Return one entry."""
    if not isinstance(value, dict):
        raise ConfigError(f"key {number} is no object")
    left = dict(value)
    take = _Taker(number, left)
    limits = take("limits", dict, optional=True) or {}
    scopes = take("scopes", list)
    if not all(scope in SCOPES for scope in scopes) or len(set(scopes)) != len(scopes):
        raise ConfigError(f"key {number}: `scopes` are some of {', '.join(SCOPES)}, each once")
    if not limits.keys() <= set(LIMIT_NAMES) or not all(
        type(most) is int and 0 <= most <= _MAX_LIMIT for most in limits.values()
    ):
        raise ConfigError(f"key {number}: `limits` are numbers: {', '.join(LIMIT_NAMES)}")
    salt = take("salt", str, optional=True)
    entry = KeyEntry(
        id=take.matching("id", _ID),
        principal=take.binary("principal", PRINCIPAL_BYTES),
        name=take.matching("name", _NAME),
        scopes=tuple(scopes),
        created_s=take.time("created_s") or 0,
        expires_s=take.time("expires_s", optional=True),
        revoked_s=take.time("revoked_s", optional=True),
        shared=take("shared", bool, optional=True) or False,
        limits=KeyLimits(**limits),
        salt=b"" if salt is None else take.hex("salt", salt, _SALT_BYTES),
        digest=take.binary("digest", _DIGEST_BYTES),
    )
    if left:
        raise ConfigError(f"key {number}: unknown field {ascii(min(left))[:40]}")
    return entry


class _Taker:
    """Takes the fields of one entry, and names the entry in what it refuses."""

    def __init__(self, number: int, left: dict[str, Any]) -> None:
        self._number = number
        self._left = left

    def __call__(self, name: str, kind: type[Any], *, optional: bool = False) -> Any:  # noqa: ANN401
        """Return a value of a type; None where it is optional and absent."""
        if optional and name not in self._left:
            return None
        value = self._left.pop(name, None)
        if type(value) is not kind:
            raise ConfigError(f"key {self._number}: `{name}` is missing or of another type")
        return value

    def matching(self, name: str, pattern: re.Pattern[str]) -> str:
        """Return a text of a form."""
        value: str = self(name, str)
        if pattern.fullmatch(value) is None:
            raise ConfigError(f"key {self._number}: `{name}` has another form")
        return value

    def binary(self, name: str, length: int) -> bytes:
        """Return bytes that are written as hexadecimal digits."""
        return self.hex(name, self(name, str), length)

    def hex(self, name: str, text: str, length: int) -> bytes:
        """Return the bytes of a text."""
        if len(text) != 2 * length or _HEX.fullmatch(text) is None:
            message = f"`{name}` has {2 * length} hexadecimal digits in lower case"
            raise ConfigError(f"key {self._number}: {message}")
        return bytes.fromhex(text)

    def time(self, name: str, *, optional: bool = False) -> int | None:
        """Return seconds since 1970."""
        value: int | None = self(name, int, optional=optional)
        if value is not None and not 0 <= value <= _MAX_TIME_S:
            raise ConfigError(f"key {self._number}: `{name}` is no time")
        return value
