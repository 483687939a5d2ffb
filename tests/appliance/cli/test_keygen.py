"""`windhover keygen` makes key files that OpenSSL reads and a trust file takes."""

from __future__ import annotations

import stat
import tomllib
from typing import TYPE_CHECKING

import pytest

from appliance.cli.keygen import key_name
from appliance.cli.main import run
from crypto.keys import load_private_key, load_public_key
from crypto.trust import TrustFile
from crypto.trust_values import ROLES
from tests.crypto.sm2_case import needs_openssl, openssl

if TYPE_CHECKING:
    from pathlib import Path

    from tests.appliance.cli.workshop import Workshop


@pytest.mark.parametrize("role", ROLES)
def test_a_pair_is_made(shop: Workshop, role: str) -> None:
    value = shop.done("keygen", shop.path("new.pem"), "--role", role, "--no-passphrase").value
    private = load_private_key(shop.path("new.pem"), passphrase=None, role=role)
    public = load_public_key(shop.path("new.pub.pem"), role=role)
    assert private.public_key == public
    assert value["key_id"] == public.key_id.hex()
    assert value["role"] == role
    assert value["encrypted"] is False
    assert stat.S_IMODE(shop.path("new.pem").stat().st_mode) == 0o600


@needs_openssl
def test_openssl_reads_the_encrypted_key(shop: Workshop) -> None:
    source = shop.secret("pass", b"correct horse\n")
    value = shop.done(
        "keygen", shop.path("new.pem"), "--role", "weights", "--passphrase-file", source
    ).value
    assert value["encrypted"] is True
    assert b"ENCRYPTED" in shop.path("new.pem").read_bytes()
    words = ("-in", shop.path("new.pem"), "-passin", f"file:{source}", "-pubout")
    printed = openssl("pkey", *words).stdout
    assert load_public_key(printed, role=None).key_id.hex() == value["key_id"]


def test_what_is_printed_goes_into_a_trust_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "the vendor's.key.pem"
    assert run(["keygen", str(path), "--role", "weights", "--no-passphrase"]) == 0
    printed = capsys.readouterr().out
    assert tomllib.loads(printed)["keys"].keys() == {"the-vendor-s-key"}
    trust = TrustFile.parse(b"version = 1\n" + printed.encode())
    public = load_public_key(tmp_path / "the vendor's.key.pub.pem", role="weights")
    assert set(trust.keys) == {public.key_id}


@pytest.mark.parametrize(("name", "called"), [("a.pem", "a"), ("ключ.pem", "key"), ("a.b", "a-b")])
def test_names(tmp_path: Path, name: str, called: str) -> None:
    assert key_name(tmp_path / name) == called


@pytest.mark.parametrize(
    "words",
    [
        ["--role", "weights"],
        ["--role", "weights", "--no-passphrase", "--passphrase-file", "p"],
        ["--role", "everything", "--no-passphrase"],
        ["--no-passphrase"],
    ],
)
def test_wrong_usage_makes_nothing(shop: Workshop, words: list[str]) -> None:
    assert shop("keygen", shop.path("new.pem"), *words).exit_code == 2
    assert not list(shop.folder.glob("new*"))


@pytest.mark.parametrize("present", ["new.pem", "new.pub.pem"])
def test_no_key_is_replaced(shop: Workshop, present: str) -> None:
    shop.path(present).write_bytes(b"precious")
    result = shop("keygen", shop.path("new.pem"), "--role", "weights", "--no-passphrase")
    assert (result.exit_code, result.value["kind"]) == (2, "WriteError")
    assert [path.name for path in shop.folder.glob("new*")] == [present]
    assert shop.path(present).read_bytes() == b"precious"


def test_a_passphrase_that_others_can_read_makes_nothing(shop: Workshop) -> None:
    source = shop.secret("pass", b"x")
    source.chmod(0o644)
    result = shop("keygen", shop.path("new.pem"), "--role", "weights", "--passphrase-file", source)
    assert (result.exit_code, result.reason) == (2, "mode")
    assert not list(shop.folder.glob("new*"))


def test_half_a_pair_is_none(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_settings: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("appliance.cli.keygen.write_public_key", refuse)
    result = shop("keygen", shop.path("new.pem"), "--role", "weights", "--no-passphrase")
    assert result.exit_code == 3
    assert not list(shop.folder.glob("new*"))
