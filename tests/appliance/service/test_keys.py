"""The file of keys and the store that looks keys up."""

from __future__ import annotations

import hashlib
import json

import pytest

from appliance.service.key_file import KeyEntry, read_keys, write_keys
from appliance.service.keys import KeyStore, KeysUnavailableError
from appliance.service.principals import KeyLimits
from crypto.errors import KeyFileError
from engine.errors import ConfigError
from tests.appliance.service.shell import make_key


class Clock:
    def __init__(self):
        self.now_s, self.passed_ns = 1000, 0

    def store(self, path):
        return KeyStore(path, now_s=lambda: self.now_s, monotonic_ns=lambda: self.passed_ns)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "keys.json"


def test_a_file_gives_back_what_was_written(path):
    entries = (
        make_key(expires_s=5, shared=True, limits=KeyLimits(concurrent_requests=3)).entry,
        make_key(revoked_s=7, scopes=()).entry,
        KeyEntry(
            id="aaaaaaaa", principal=bytes(16), name="é", scopes=("log",), created_s=0,
            salt=b"", digest=bytes(32),
        ),
    )  # fmt: skip
    write_keys(path, entries, force=False)
    assert read_keys(path) == entries
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_secret_is_nowhere_in_the_file(path):
    key = make_key()
    write_keys(path, (key.entry,), force=False)
    secret = key.text.split("-", 2)[2]
    assert len(secret) == 43
    assert secret not in path.read_text()


def test_only_the_whole_key_fits(path, clock):
    key, other = make_key(), make_key()
    write_keys(path, (key.entry, other.entry), force=False)
    store = clock.store(path)
    assert store.principal(key.text).key_id == key.entry.id
    changed = key.text[:-1] + ("A" if key.text[-1] != "A" else "B")
    mixed = f"wh-{key.entry.id}-{other.text.split('-', 2)[2]}"
    for text in ("", key.text + "A", key.text[:-1], changed, mixed, key.text.upper(), "wh-", "x"):
        assert store.principal(text) is None


def test_an_unknown_key_is_compared_too(path, clock, monkeypatch):
    key = make_key()
    write_keys(path, (key.entry,), force=False)
    store = clock.store(path)
    compared = []

    def watch(one, two):
        compared.append((len(one), len(two)))
        return one == two

    monkeypatch.setattr("appliance.service.keys.hmac.compare_digest", watch)
    for text in (key.text, make_key().text, "nonsense"):
        store.principal(text)
    assert compared == [(32, 32)] * 3


def test_keys_end_and_are_withdrawn(path, clock):
    ends, gone = make_key(expires_s=1001), make_key(revoked_s=1)
    write_keys(path, (ends.entry, gone.entry), force=False)
    store = clock.store(path)
    assert store.principal(ends.text) is not None
    assert store.principal(gone.text) is None
    assert store.num_active == 1
    clock.now_s = 1001
    assert store.principal(ends.text) is None


def test_a_change_is_seen_after_a_second(path, clock):
    old, new = make_key(), make_key()
    write_keys(path, (old.entry,), force=False)
    store = clock.store(path)
    write_keys(path, (new.entry,), force=True)
    assert store.principal(old.text) is not None
    clock.passed_ns += 1_000_000_000
    assert store.principal(old.text) is None
    assert store.principal(new.text) is not None


@pytest.mark.parametrize("spoil", ["remove", "readable", "cut", "empty"])
def test_while_the_file_is_bad_nobody_is_known(path, clock, spoil):
    key = make_key()
    write_keys(path, (key.entry,), force=False)
    store = clock.store(path)
    assert store.failure is None
    good = path.read_bytes()
    if spoil == "remove":
        path.unlink()
    elif spoil == "readable":
        path.chmod(0o644)
    else:
        path.write_bytes(good[:-9] if spoil == "cut" else b"")
    clock.passed_ns += 1_000_000_000
    for text in (key.text, "x"):
        with pytest.raises(KeysUnavailableError):
            store.principal(text)
    assert store.failure is not None
    path.unlink(missing_ok=True)
    write_keys(path, (key.entry,), force=False)
    clock.passed_ns += 1_000_000_000
    assert store.principal(key.text) is not None
    assert store.failure is None


def test_a_certificate_is_known_by_its_digest(path, clock):
    digest = hashlib.sha256(b"certificate").digest()
    entry = KeyEntry(
        id="aaaaaaaa", principal=b"p" * 16, name="nginx", scopes=("log",), created_s=0,
        salt=b"", digest=digest,
    )  # fmt: skip
    write_keys(path, (entry,), force=False)
    store = clock.store(path)
    assert store.certificate(b"certificate").id == b"p" * 16
    assert store.certificate(b"another") is None
    assert store.principal(f"wh-aaaaaaaa-{'A' * 43}") is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("scopes", ["all"]),
        ("scopes", ["log", "log"]),
        ("principal", "00"),
        ("principal", None),
        ("digest", "F" * 64),
        ("salt", ""),
        ("id", "AAAAAAAA"),
        ("name", "a\nb"),
        ("created_s", 1.5),
        ("expires_s", -1),
        ("shared", 1),
        ("limits", {"cats": 1}),
        ("limits", {"concurrent_requests": True}),
        ("other", 1),
    ],
)
def test_a_key_with_anything_else_is_refused(path, name, value):
    write_keys(path, (make_key().entry,), force=False)
    content = json.loads(path.read_text())
    content["keys"][0][name] = value
    path.write_text(json.dumps(content))
    with pytest.raises(ConfigError, match=r"keys\.json"):
        read_keys(path)


@pytest.mark.parametrize(
    "change", [{"version": 2}, {"version": True}, {"more": 1}, {"keys": {}}, {"keys": [1]}]
)
def test_a_file_with_anything_else_is_refused(path, change):
    write_keys(path, (make_key().entry,), force=False)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ConfigError, match=r"keys\.json"):
        read_keys(path)


def test_no_id_stands_twice(path):
    entry = make_key().entry
    with pytest.raises(ConfigError, match="same id"):
        write_keys(path, (entry, entry), force=False)
    assert not path.exists()


def test_a_link_is_not_followed(path, tmp_path):
    write_keys(tmp_path / "real", (make_key().entry,), force=False)
    path.symlink_to(tmp_path / "real")
    with pytest.raises(KeyFileError):
        read_keys(path)
