"""`windhover seal`: who can open what, and what goes along."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.vqf import open_vqf

if TYPE_CHECKING:
    from tests.appliance.cli.workshop import Workshop


@pytest.fixture(scope="module")
def passphrase() -> bytes:
    """Return a passphrase with every kind of byte that a file may hold."""
    return b"\x01\xff" + "pass phrase\twith ünicode\r!".encode()


def test_recipients_open_it_and_nobody_else(shop: Workshop) -> None:
    path, sealed = shop.weights(), shop.path("sealed.vqf")
    shop.key("second", "unseal")
    outsider = shop.key("outsider", "unseal")
    to = ("--to", shop.public("appliance"), "--to", shop.public("second"))
    value = shop.done("seal", path, sealed, *to).value
    with open_vqf(path) as file:
        assert value["model_digest"] == file.model_digest.hex()
    assert len(value["recipients"]["key_ids"]) == 2
    for name in ("appliance", "second"):
        shop.done("check", sealed, "--dev", "--key", shop.path(f"{name}.pem"))
    result = shop("check", sealed, "--dev", "--key", outsider)
    assert (result.exit_code, result.reason) == (2, "recipient")
    result = shop("check", sealed, "--dev")
    assert (result.exit_code, result.reason) == (2, "missing")
    # a key among others is found
    both = ("--key", outsider, "--key", shop.path("second.pem"))
    shop.done("check", sealed, "--dev", *both)


def test_a_passphrase(shop: Workshop, passphrase: bytes) -> None:
    path, sealed = shop.weights(), shop.path("sealed.vqf")
    secret = shop.secret("pass", passphrase + b"\n")
    value = shop.done("seal", path, sealed, "--passphrase-file", secret).value
    assert value["recipients"] == {"passphrase": {"iterations": 600_000}}
    shop.done("check", sealed, "--dev", "--passphrase-file", secret)
    zero = shop.secret("zero", passphrase + b"\0")
    result = shop("seal", path, shop.path("zero.vqf"), "--passphrase-file", zero)
    assert (result.exit_code, "no zero byte" in result.err) == (2, True)
    wrong = shop.secret("wrong", passphrase[:-1])
    result = shop("check", sealed, "--dev", "--passphrase-file", wrong)
    assert (result.exit_code, result.value["kind"]) == (1, "WeightsError")
    assert result.value["rule"] == "V1"
    result = shop("check", sealed, "--dev", "--key", shop.path("appliance.pem"))
    assert (result.exit_code, result.reason) == (2, "missing")


def test_signatures_go_along(shop: Workshop) -> None:
    path, sealed = shop.weights(), shop.path("sealed.vqf")
    words = ("--line", "demo", "--release", 1)
    shop.done("sign", path, "--key", shop.path("vendor.pem"), *words)
    result = shop.done("seal", path, sealed, "--to", shop.public("appliance"))
    assert result.value["num_signatures"] == 1
    assert result.err == ""


def test_sealing_what_nobody_signed_is_said(shop: Workshop) -> None:
    result = shop.done(
        "seal", shop.weights(), shop.path("sealed.vqf"), "--to", shop.public("appliance")
    )
    assert "not signed" in result.err


def test_sealing_again_makes_another_key(shop: Workshop) -> None:
    path, once, twice = shop.weights(), shop.path("once.vqf"), shop.path("twice.vqf")
    to = ("--to", shop.public("appliance"))
    first = shop.done("seal", path, once, *to).value
    second = shop.done("seal", once, twice, *to, "--key", shop.path("appliance.pem")).value
    assert first["model_digest"] == second["model_digest"]
    assert first["file_id"] != second["file_id"]
    assert once.read_bytes()[-4096:] != twice.read_bytes()[-4096:]


def test_a_file_is_replaced_only_when_forced(shop: Workshop) -> None:
    path, sealed = shop.weights(), shop.path("sealed.vqf")
    sealed.write_bytes(b"precious")
    words = ("seal", path, sealed, "--to", shop.public("appliance"))
    result = shop(*words)
    assert (result.exit_code, result.value["kind"]) == (2, "WriteError")
    assert sealed.read_bytes() == b"precious"
    shop.done(*words, "--force")
    shop.done("check", sealed, "--dev", "--key", shop.path("appliance.pem"))


def test_damaged_weights_are_not_sealed(shop: Workshop) -> None:
    path, sealed = shop.weights(), shop.path("sealed.vqf")
    data = bytearray(path.read_bytes())
    data[-5000] ^= 1
    path.write_bytes(data)
    result = shop("seal", path, sealed, "--to", shop.public("appliance"))
    assert (result.exit_code, result.value["kind"]) == (1, "WeightsError")
    assert not sealed.exists()


@pytest.mark.parametrize("number", [0, 2])
def test_keys_or_a_passphrase(shop: Workshop, number: int) -> None:
    secret = shop.secret("pass", b"x")
    words = ("--to", shop.public("appliance"), "--passphrase-file", secret) if number else ()
    result = shop("seal", shop.weights(), shop.path("sealed.vqf"), *words)
    assert (result.exit_code, result.value["kind"]) == (2, "UsageError")
    assert not shop.path("sealed.vqf").exists()


def test_a_key_of_another_role_is_no_recipient(shop: Workshop) -> None:
    path, sealed = shop.weights(), shop.path("sealed.vqf")
    result = shop("seal", path, sealed, "--to", shop.public("vendor"))
    assert (result.exit_code, result.reason) == (2, "role")
    result = shop("seal", path, sealed, "--to", shop.path("appliance.pem"))
    assert (result.exit_code, result.reason) == (2, "format")
