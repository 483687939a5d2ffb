"""`windhover rewrap`: recipients come and go, the data stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.vqf import outline

if TYPE_CHECKING:
    from pathlib import Path

    from tests.appliance.cli.workshop import Workshop


@pytest.fixture
def sealed(shop: Workshop) -> Path:
    """Return a file sealed for `appliance`; there is a key `second`, too."""
    shop.key("second", "unseal")
    path = shop.path("sealed.vqf")
    shop.done("seal", shop.weights(), path, "--to", shop.public("appliance"))
    return path


def key(shop: Workshop, name: str = "appliance") -> tuple[str, Path]:
    """Return the option that opens with a key."""
    return "--key", shop.path(f"{name}.pem")


def data_of(path: Path) -> bytes:
    """Return everything but preamble, recipients and header tag."""
    return path.read_bytes()[16_544:]


def opens(shop: Workshop, path: Path, *words: object) -> bool:
    """Say whether a file opens and verifies."""
    return shop("check", path, "--dev", *words).exit_code == 0


def test_one_more(shop: Workshop, sealed: Path) -> None:
    before = data_of(sealed)
    result = shop.done("rewrap", sealed, *key(shop), "--add", shop.public("second"))
    assert data_of(sealed) == before
    assert opens(shop, sealed, *key(shop))
    assert opens(shop, sealed, *key(shop, "second"))
    assert result.value["removed"] == []
    assert result.err == ""


@pytest.mark.parametrize("named", ["by file", "by key id"])
def test_one_less(shop: Workshop, sealed: Path, named: str) -> None:
    (gone,) = (recipient.key_id.hex() for recipient in outline(sealed).recipients)
    before = data_of(sealed)
    remove = shop.public("appliance") if named == "by file" else gone
    words = ("--add", shop.public("second"), "--remove", remove)
    result = shop.done("rewrap", sealed, *key(shop), *words)
    assert data_of(sealed) == before
    assert not opens(shop, sealed, *key(shop))
    assert opens(shop, sealed, *key(shop, "second"))
    assert result.value["removed"] == [gone]
    assert "may have kept the data key" in result.err
    assert "--new-key" in result.err


def test_a_new_key_encrypts_again(shop: Workshop, sealed: Path) -> None:
    before, file_id = data_of(sealed), outline(sealed).preamble.identity
    result = shop.done("rewrap", sealed, *key(shop), "--to", shop.public("second"), "--new-key")
    assert data_of(sealed)[-4096:] != before[-4096:]
    assert outline(sealed).preamble.identity != file_id
    assert opens(shop, sealed, *key(shop, "second"))
    assert not opens(shop, sealed, *key(shop))
    assert result.value["new_key"] is True
    assert "kept a copy" in result.err


def test_from_keys_to_a_passphrase_and_on_to_another(shop: Workshop, sealed: Path) -> None:
    first, second = shop.secret("first", b"one"), shop.secret("second.pass", b"two")
    shop.done("rewrap", sealed, *key(shop), "--passphrase-file", first)
    assert not opens(shop, sealed, *key(shop))
    words = ("--old-passphrase-file", first, "--passphrase-file", second)
    assert shop.done("rewrap", sealed, *words).value["removed"] == ["passphrase"]
    assert not opens(shop, sealed, "--passphrase-file", first)
    assert opens(shop, sealed, "--passphrase-file", second)
    result = shop("rewrap", sealed, "--old-passphrase-file", second, "--add", shop.public("second"))
    assert (result.exit_code, result.value["kind"]) == (2, "ConfigError")


def test_signatures_stay(shop: Workshop, sealed: Path) -> None:
    words = ("--key", shop.path("vendor.pem"), "--line", "demo", "--release", 1)
    shop.done("sign", sealed, *words, "--unseal-key", shop.path("appliance.pem"))
    shop.done("rewrap", sealed, *key(shop), "--add", shop.public("second"))
    shop.done("rewrap", sealed, *key(shop), "--to", shop.public("second"), "--new-key")
    value = shop.done("inspect", sealed, *key(shop, "second")).value
    assert len(value["signatures"]) == 1


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--to", "appliance", "--add", "second"],
        ["--to", "appliance", "--passphrase-file", "pass"],
        ["--add", "second", "--new-key"],
        ["--remove", "appliance"],
        ["--remove", "second"],
        ["--remove", "ab" * 32],
        ["--remove", "nonesuch"],
        ["--add", "vendor"],
    ],
    ids=" ".join,
)
def test_what_makes_no_sense_changes_nothing(
    shop: Workshop, sealed: Path, words: list[str]
) -> None:
    names = {"appliance", "second", "vendor"}
    shop.secret("pass", b"x")
    given = [shop.public(w) if w in names else shop.path(w) if w == "pass" else w for w in words]
    before = sealed.read_bytes()
    result = shop("rewrap", sealed, *key(shop), *given)
    assert result.exit_code == 2
    assert result.err.count("\n") == 1
    assert sealed.read_bytes() == before


@pytest.mark.parametrize("new_key", [[], ["--new-key"]])
def test_a_file_that_is_not_sealed(shop: Workshop, new_key: list[str]) -> None:
    path = shop.weights("other.vqf")
    result = shop("rewrap", path, "--to", shop.public("appliance"), *new_key)
    assert (result.exit_code, result.value["kind"]) == (2, "UnsupportedError")
