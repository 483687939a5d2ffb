"""`windhover apikey`: keys made, rotated, listed and withdrawn."""

from __future__ import annotations

import hashlib
import threading

import pytest

from appliance.cli.apikey import command
from appliance.service.key_file import KEY_TEXT, read_keys
from appliance.service.keys import KeyStore


@pytest.fixture
def keys(shop):
    return shop.path("keys.json")


def test_a_new_key_is_accepted_and_shown_once(shop, keys):
    made = shop.done("apikey", "new", keys, "--name", "a client").value
    assert KEY_TEXT.fullmatch(made["key"])
    owner = KeyStore(keys).principal(made["key"])
    assert owner.id.hex() == made["principal"]
    assert owner.scopes == {"generate", "embeddings", "models", "attestations", "log"}
    listed = shop.done("apikey", "list", keys).value["keys"]
    assert [each["id"] for each in listed] == [made["id"]]
    assert made["key"].split("-", 2)[2] not in keys.read_text() + str(listed)
    assert not {"salt", "digest"} & listed[0].keys()
    assert keys.stat().st_mode & 0o777 == 0o600


def test_a_key_goes_into_a_file_for_its_owner(shop, keys):
    out = shop.path("key")
    made = shop.done("apikey", "new", keys, "--name", "a", "--out", out).value
    assert made["key"] is None
    assert out.stat().st_mode & 0o777 == 0o600
    assert KeyStore(keys).principal(out.read_text().strip()).key_id == made["id"]
    before = keys.read_bytes()
    assert shop("apikey", "new", keys, "--name", "b", "--out", out).exit_code == 2
    assert keys.read_bytes() == before


def test_a_rotated_key_keeps_its_principal_until_the_old_one_is_revoked(shop, keys):
    options = ("--scope", "generate", "--shared", "--limit", "concurrent_requests", 3)
    old = shop.done("apikey", "new", keys, "--name", "a", *options).value
    new = shop.done("apikey", "new", keys, "--rotate", old["id"]).value
    same = ("principal", "name", "scopes", "shared", "limits")
    assert {name: old[name] for name in same} == {name: new[name] for name in same}
    store = KeyStore(keys)
    assert store.principal(old["key"]).id == store.principal(new["key"]).id
    assert shop.done("apikey", "revoke", keys, old["id"]).value["state"] == "revoked"
    store = KeyStore(keys)
    assert store.principal(old["key"]) is None
    assert store.principal(new["key"]) is not None


def test_revoking_twice_keeps_the_first_time(shop, keys):
    made = shop.done("apikey", "new", keys, "--name", "a").value
    first = shop.done("apikey", "revoke", keys, made["id"]).value
    assert shop.done("apikey", "revoke", keys, made["id"]).value == first


def test_a_certificate_is_taken_as_file_or_fingerprint(shop, keys):
    pem = shop.path("client.pem")
    pem.write_text("-----BEGIN CERTIFICATE-----\nY2VydA==\n-----END CERTIFICATE-----\n")
    digest = hashlib.sha256(b"cert").hexdigest()
    colons = ":".join(digest[i : i + 2].upper() for i in range(0, 64, 2))
    made = shop.done("apikey", "new", keys, "--name", "a", "--certificate", pem).value
    assert made["certificate_sha256"] == digest
    assert made["key"] is None
    other = shop.path("other.json")
    shop.done("apikey", "new", other, "--name", "a", "--certificate", colons)
    assert KeyStore(other).certificate(b"cert") is not None


def test_a_key_that_ended_is_listed_as_such(shop, keys):
    shop.done("apikey", "new", keys, "--name", "a", "--expires", "2001-01-01")
    (listed,) = shop.done("apikey", "list", keys).value["keys"]
    assert listed["state"] == "expired"


@pytest.mark.parametrize(
    "words",
    [
        ("new",),
        ("new", "--name", "a", "--rotate", "aaaaaaaa"),
        ("new", "--rotate", "aaaaaaaa"),
        ("new", "--name", "a", "--scope", "all"),
        ("new", "--name", "a\nb"),
        ("new", "--name", "a", "--limit", "cats", "3"),
        ("new", "--name", "a", "--certificate", "ab:cd"),
        ("revoke", "aaaaaaaa"),
    ],
)
def test_what_is_refused_changes_nothing(shop, keys, words):
    shop.done("apikey", "new", keys, "--name", "first")
    before = keys.read_bytes()
    result = shop("apikey", words[0], keys, *words[1:])
    assert result.exit_code == 2
    assert keys.read_bytes() == before
    assert "Traceback" not in result.err


def test_a_file_that_others_can_read_is_refused(shop, keys):
    shop.done("apikey", "new", keys, "--name", "a")
    keys.chmod(0o644)
    for words in (("list", keys), ("new", keys, "--name", "b"), ("revoke", keys, "x")):
        result = shop("apikey", *words)
        assert (result.exit_code, result.reason) == (2, "mode")


def test_keys_made_at_the_same_time_are_all_kept(keys):
    def make(number):
        words = ["new", str(keys), "--name", f"client {number}", "--out", f"{keys}.{number}"]
        command.main(words, standalone_mode=False)

    threads = [threading.Thread(target=make, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {entry.name for entry in read_keys(keys)} == {f"client {n}" for n in range(8)}
