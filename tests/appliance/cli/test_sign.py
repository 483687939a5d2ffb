"""`windhover sign`: what is signed, by whom, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from appliance.cli.values import today
from crypto.keys import load_public_key
from crypto.sm2 import signature_to_der
from engine.vqf import open_vqf
from tests import altered
from tests.crypto.sm2_case import needs_openssl, openssl

if TYPE_CHECKING:
    from pathlib import Path

    from tests.appliance.cli.workshop import Workshop

DATES = ("--not-before", "2020-01-01", "--expires", "2090-06-30T12:00:00Z")


def sign(shop: Workshop, path: Path, *words: object, key: str = "vendor") -> None:
    """Sign release 3 of line demo."""
    pem = shop.path(f"{key}.pem")
    shop.done("sign", path, "--key", pem, "--line", "demo", "--release", 3, *words)


def payloads(path: Path) -> list[bytes]:
    """Return what the signatures of a file are over."""
    with open_vqf(path) as file:
        return [signed.sign1.payload for signed in file.signatures]


def test_what_is_said_is_signed(shop: Workshop) -> None:
    path = shop.weights()
    words = ("--least-runtime", "0.1.0", "--supersedes", 2, "--supersedes", 1)
    sign(shop, path, *DATES, *words)
    with open_vqf(path) as file:
        (signed,) = file.signatures
        assert signed.release.model_digest == file.model_digest
    release = signed.release
    assert (release.line, release.release, release.supersedes) == ("demo", 3, (1, 2))
    assert release.not_before == 1_577_836_800
    assert release.expires == 3_802_507_200
    assert release.least_runtime == (0, 1, 0)
    public = load_public_key(shop.public("vendor"), role="weights")
    signed.sign1.verify(public, typ="windhover/release;v=1")


def test_the_defaults(shop: Workshop) -> None:
    path = shop.weights()
    pem = shop.path("vendor.pem")
    value = shop.done("sign", path, "--key", pem, "--line", "demo", "--release", 1).value
    assert value["not_before"] == today(value["not_before"])
    assert value["expires"] is None
    assert value["least_runtime"] == [0, 1, 0]
    assert value["supersedes"] == []
    assert value["form"] == "signed"


def test_a_second_signer_signs_the_same_bytes(shop: Workshop) -> None:
    path = shop.weights()
    shop.key("second", "weights")
    sign(shop, path, *DATES, "--supersedes", 1, "--least-runtime", "0.0.9")
    sign(shop, path, key="second")
    first, second = payloads(path)
    assert first == second


def test_several_keys_sign_at_once_and_nobody_twice(shop: Workshop) -> None:
    path = shop.weights()
    second = shop.key("second", "weights")
    sign(shop, path, "--key", second)
    assert len(payloads(path)) == 2
    before = path.read_bytes()
    sign(shop, path, "--key", second)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "words",
    [
        ("--not-before", "2020-01-02"),
        ("--expires", "2031-01-01"),
        ("--least-runtime", "0.2.0"),
        ("--supersedes", "2"),
    ],
)
def test_a_contradiction_is_refused(shop: Workshop, words: tuple[str, str]) -> None:
    path = shop.weights()
    second = shop.key("second", "weights")
    sign(shop, path, *DATES)
    before = path.read_bytes()
    result = shop("sign", path, "--key", second, "--line", "demo", "--release", 3, *words)
    assert (result.exit_code, result.value["kind"]) == (2, "ConfigError")
    assert words[0] in result.err
    assert path.read_bytes() == before
    sign(shop, path, *DATES, key="second")  # saying the same again is none
    assert len(set(payloads(path))) == 1


def test_another_release_drops_signatures_only_when_forced(shop: Workshop) -> None:
    path = shop.weights()
    sign(shop, path)
    again = ("sign", path, "--key", shop.path("vendor.pem"), "--line", "demo", "--release", 4)
    result = shop(*again)
    assert result.exit_code == 2
    assert "--force" in result.err
    shop.done(*again, "--force")
    with open_vqf(path) as file:
        assert [signed.release.release for signed in file.signatures] == [4]


def test_another_line_stands_beside(shop: Workshop) -> None:
    path = shop.weights()
    sign(shop, path)
    pem = shop.path("vendor.pem")
    shop.done("sign", path, "--key", pem, "--line", "other", "--release", 1)
    with open_vqf(path) as file:
        lines = {signed.release.line for signed in file.signatures}
    assert lines == {"demo", "other"}


def test_a_damaged_file_is_not_signed(shop: Workshop) -> None:
    path = shop.weights()
    data = bytearray(path.read_bytes())
    data[-5000] ^= 1
    path.write_bytes(data)
    result = shop("sign", path, "--key", shop.path("vendor.pem"), "--line", "demo", "--release", 1)
    assert result.exit_code == 1
    assert path.read_bytes() == bytes(data)


def test_a_sealed_file_stays_sealed(shop: Workshop) -> None:
    path, sealed = shop.weights(), shop.path("sealed.vqf")
    shop.done("seal", path, sealed, "--to", shop.public("appliance"))
    words = ("--line", "demo", "--release", 1)
    signed = ("sign", sealed, "--key", shop.path("vendor.pem"), *words)
    result = shop(*signed)
    assert (result.exit_code, result.reason) == (2, "missing")
    opening = ("--unseal-key", shop.path("appliance.pem"))
    assert shop.done(*signed, *opening).value["form"] == "sealed"
    value = shop.done("inspect", sealed, "--key", shop.path("appliance.pem")).value
    assert [signature["line"] for signature in value["signatures"]] == ["demo"]


def test_an_encrypted_key(shop: Workshop) -> None:
    path, secret = shop.weights(), shop.secret("pass", b"open sesame")
    key = shop.key("locked", "weights", passphrase=b"open sesame")
    words = ("sign", path, "--key", key, "--line", "demo", "--release", 1)
    assert shop(*words).reason == "encrypted"
    wrong = shop.secret("wrong", b"open barley")
    assert shop(*words, "--key-passphrase-file", wrong).reason == "passphrase"
    shop.done(*words, "--key-passphrase-file", secret)


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (("--line", "Demo", "--release", 1), "UsageError"),
        (("--line", "d" * 65, "--release", 1), "UsageError"),
        (("--line", "demo", "--release", 0), "UsageError"),
        (("--line", "demo", "--release", 2**53), "UsageError"),
        (("--line", "demo", "--release", 1, "--expires", "tomorrow"), "UsageError"),
        (("--line", "demo", "--release", 1, "--expires", "2027-02-30"), "UsageError"),
        (("--line", "demo", "--release", 1, "--expires", "1969-12-31"), "UsageError"),
        (("--line", "demo", "--release", 1, "--expires", "2001-01-01"), "ConfigError"),
        (("--line", "demo", "--release", 1, "--least-runtime", "1.2"), "UsageError"),
        (("--line", "demo", "--release", 1, "--least-runtime", "1.2.65536"), "UsageError"),
        (("--line", "demo", "--release", 1, "--supersedes", 1), "ConfigError"),
        (("--line", "demo"), "UsageError"),
    ],
)
def test_what_cannot_be_signed(shop: Workshop, words: tuple[object, ...], kind: str) -> None:
    path = shop.weights()
    before = path.read_bytes()
    result = shop("sign", path, "--key", shop.path("vendor.pem"), *words)
    assert (result.exit_code, result.value["kind"]) == (2, kind)
    assert result.err.count("\n") == 1
    assert path.read_bytes() == before


def test_more_signatures_than_fit(shop: Workshop) -> None:
    path = shop.weights()
    keys = [word for n in range(17) for word in ("--key", shop.key(f"k{n}", "weights"))]
    result = shop("sign", path, *keys, "--line", "demo", "--release", 1)
    assert (result.exit_code, result.value["kind"]) == (2, "ConfigError")
    shop.done("sign", path, *keys[:-2], "--line", "demo", "--release", 1)
    assert len(payloads(path)) == 16


@needs_openssl
def test_openssl_verifies_the_signature_in_a_file(shop: Workshop) -> None:
    path = shop.weights()
    sign(shop, path)
    with open_vqf(path) as file:
        sign1 = file.signatures[0].sign1
    protected, payload = sign1.protected, sign1.payload
    # RFC 9052 section 4.4, spelled out: an array of four, of which the third is empty
    message = b"\x84\x6aSignature1" + bstr(protected) + b"\x40" + bstr(payload)
    shop.path("message").write_bytes(message)
    shop.path("signature").write_bytes(signature_to_der(sign1.signature))

    def verify() -> int:
        key = ("-verify", "-pubin", "-inkey", shop.public("vendor"))
        how = ("-rawin", "-digest", "sm3", "-pkeyopt", "distid:1234567812345678")
        files = ("-in", shop.path("message"), "-sigfile", shop.path("signature"))
        return int(openssl("pkeyutl", *key, *how, *files, check=False).returncode)

    assert verify() == 0
    shop.path("message").write_bytes(altered.last_byte(message))
    assert verify() == 1


def bstr(data: bytes) -> bytes:
    """Return a CBOR byte string of at most 255 bytes."""
    return (b"\x58" + bytes([len(data)]) if len(data) > 23 else bytes([0x40 + len(data)])) + data
