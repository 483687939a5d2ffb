"""`windhover revoke` makes lists that `crypto.revocations` accepts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crypto.floors import Floors
from crypto.keys import load_public_key
from crypto.revocations import Revocations, open_revocations
from crypto.trust import TrustFile
from engine.vqf import open_vqf
from tests import altered

if TYPE_CHECKING:
    from pathlib import Path

    from tests.appliance.cli.workshop import Workshop

FAR = 4_000_000_000


@pytest.fixture
def revoker(shop: Workshop) -> Workshop:
    """Return a workshop with a key `revoke` and a trust file that names it."""
    shop.key("revoke", "revoke")
    shop.trust(keys={"revoke": "revoke"})
    return shop


def read(shop: Workshop, path: Path) -> Revocations:
    """Open a list under the trust file."""
    trust = TrustFile.parse(shop.path("trust.toml").read_bytes())
    return open_revocations(path.read_bytes(), trust, floors=Floors(), now=FAR)


def make(shop: Workshop, name: str, sequence: int, *words: object) -> Path:
    """Make a list."""
    key = shop.path("revoke.pem")
    shop.done("revoke", shop.path(name), "--key", key, "--sequence", sequence, *words)
    return shop.path(name)


def test_keys_and_models(revoker: Workshop) -> None:
    path = revoker.weights()
    with open_vqf(path) as file:
        digest = file.model_digest
    vendor = load_public_key(revoker.public("vendor"), role="weights").key_id
    words = ("--revoke-key", revoker.public("vendor"), "--revoke-key", "ab" * 32)
    made = make(revoker, "list", 7, *words, "--revoke-model", path, "--revoke-model", "cd" * 32)
    found = read(revoker, made)
    assert found.sequence == 7
    assert found.key_ids == {vendor, b"\xab" * 32}
    assert found.model_digests == {digest, b"\xcd" * 32}


def test_a_list_may_be_empty(revoker: Workshop) -> None:
    found = read(revoker, make(revoker, "list", 1))
    assert (found.key_ids, found.model_digests) == (frozenset(), frozenset())


def test_what_was_withdrawn_stays(revoker: Workshop) -> None:
    old = make(revoker, "old", 1, "--revoke-key", "ab" * 32, "--revoke-model", "12" * 32)
    new = make(revoker, "new", 2, "--revoke-model", "cd" * 32, "--add-to", old)
    found = read(revoker, new)
    assert found.key_ids == {b"\xab" * 32}
    assert found.model_digests == {b"\xcd" * 32, b"\x12" * 32}
    result = revoker(
        *("revoke", revoker.path("third"), "--key", revoker.path("revoke.pem")),
        *("--sequence", 2, "--add-to", new),
    )
    assert (result.exit_code, result.value["kind"]) == (2, "ConfigError")
    assert not revoker.path("third").exists()


def test_the_old_list_may_be_another_keys(revoker: Workshop) -> None:
    old = make(revoker, "old", 1, "--revoke-key", "ab" * 32)
    heir = revoker.key("heir", "revoke")
    words = ("revoke", revoker.path("new"), "--key", heir, "--sequence", 2, "--add-to", old)
    result = revoker(*words)
    assert (result.exit_code, result.reason) == (1, "revocations-unknown-signer")
    value = revoker.done(*words, "--trust", revoker.path("trust.toml")).value
    assert value["key_ids"] == ["ab" * 32]


def test_an_altered_list_is_not_added_to(revoker: Workshop) -> None:
    old = make(revoker, "old", 1)
    old.write_bytes(altered.last_byte(old.read_bytes()))
    words = ("--sequence", 2, "--add-to", old)
    result = revoker("revoke", revoker.path("new"), "--key", revoker.path("revoke.pem"), *words)
    assert (result.exit_code, result.reason) == (1, "revocations-bad-signature")


def test_a_sealed_model_is_named_by_its_digest(revoker: Workshop) -> None:
    sealed = revoker.path("sealed.vqf")
    revoker.done("seal", revoker.weights(), sealed, "--to", revoker.public("appliance"))
    key = revoker.path("revoke.pem")
    words = ("--sequence", 1, "--revoke-model", sealed)
    result = revoker("revoke", revoker.path("list"), "--key", key, *words)
    assert (result.exit_code, result.value["kind"]) == (2, "ConfigError")


@pytest.mark.parametrize(
    "words",
    [
        ["--sequence", "0"],
        [],
        ["--sequence", "1", "--revoke-key", "ab"],
        ["--sequence", "1", "--revoke-model", "AB" * 32],
        ["--sequence", "1", "--trust", "trust.toml"],
        ["--sequence", "1", *("--revoke-key", "revoke.pub.pem")],
        ["--sequence", "1", *(w for n in range(901) for w in ("--revoke-key", f"{n:064x}"))],
    ],
    ids=lambda words: " ".join(words)[:40],
)
def test_what_makes_no_list(
    revoker: Workshop, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(revoker.folder)
    result = revoker("revoke", "list", "--key", "revoke.pem", *words)
    assert result.exit_code == 2
    assert result.err.count("\n") == 1
    assert not revoker.path("list").exists()


def test_a_key_of_another_role(revoker: Workshop) -> None:
    key = revoker.path("vendor.pem")
    result = revoker("revoke", revoker.path("list"), "--key", key, "--sequence", 1)
    assert (result.exit_code, result.reason) == (2, "role")


def test_a_list_is_replaced_only_when_forced(revoker: Workshop) -> None:
    path = make(revoker, "list", 1)
    before = path.read_bytes()
    words = ("revoke", path, "--key", revoker.path("revoke.pem"), "--sequence", 2)
    assert revoker(*words).exit_code == 2
    assert path.read_bytes() == before
    revoker.done(*words, "--force")
    assert read(revoker, path).sequence == 2
