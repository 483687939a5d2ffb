"""Every reason for which a policy refuses, reached from the command line by files."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from appliance.cli.inputs import default_floors
from crypto.cbor import encode
from crypto.cose import sign1
from crypto.floors import FloorStore
from crypto.keys import load_private_key, load_public_key
from crypto.policy import REASONS
from crypto.revocations import REVOCATIONS_TYPE, make_revocations
from crypto.signer import SoftwareSigner
from engine.vqf import open_vqf
from tests import altered
from tests.appliance.cli.workshop import line_table

if TYPE_CHECKING:
    from pathlib import Path

    from tests.appliance.cli.workshop import Result, Workshop

NOW = int(time.time())
DAY_S = 86_400
PAST = 'not_after = "2001-01-01T00:00:00Z"'
FUTURE = 'not_before = "2090-01-01T00:00:00Z"'
LINE = line_table("demo", "vendor")

REFUSED_BEFORE = {"wrong-type", "wrong-model"}
"""What the reader of a file refuses by rules S3 and S5, before anybody is asked."""


class Case:
    """Weights, signed as release 3 of line demo, and what is asked of them."""

    def __init__(self, shop: Workshop) -> None:
        """Make the files that most cases share."""
        self.shop = shop
        self.path = shop.weights()
        shop.key("second", "weights")
        shop.key("revoke", "revoke")
        self.words: list[object] = []

    def sign(self, *words: object, key: str = "vendor", line: str = "demo") -> Case:
        """Sign the weights."""
        pem = self.shop.path(f"{key}.pem")
        self.shop.done("sign", self.path, "--key", pem, "--line", line, "--release", 3, *words)
        return self

    def trust(self, *lines: str, sealed: bool = False, **key_lines: str) -> Case:
        """Write the trust file; `vendor`, `second` and `revoke` are in it."""
        keys = {"vendor": "weights", "second": "weights", "revoke": "revoke"}
        path = self.shop.trust(*lines, keys=keys, key_lines=key_lines, sealed=sealed)
        self.words += ["--trust", path]
        return self

    def revocations(
        self, *, key: str = "revoke", sequence: int = 1, issued: int = NOW - 10, **lists: set[bytes]
    ) -> Case:
        """Make a list of revocations."""
        signer = self.signer(key)
        key_ids, digests = lists.get("key_ids", ()), lists.get("model_digests", ())
        data = make_revocations(
            sequence=sequence, issued=issued, key_ids=key_ids, model_digests=digests, signer=signer
        )
        return self.revocation_list(data)

    def revocation_list(self, data: bytes) -> Case:
        """Give the bytes of a list of revocations."""
        self.shop.path("list").write_bytes(data)
        self.words += ["--revocations", self.shop.path("list")]
        return self

    def signer(self, name: str) -> SoftwareSigner:
        """Return who signs with a key."""
        return SoftwareSigner(
            load_private_key(self.shop.path(f"{name}.pem"), passphrase=None, role=None)
        )

    def key_id(self, name: str) -> bytes:
        """Return the id of a key."""
        return load_public_key(self.shop.public(name), role=None).key_id

    def floors(self) -> FloorStore:
        """Return the file of floors that no option names."""
        path = default_floors()
        path.parent.mkdir(parents=True, exist_ok=True)
        return FloorStore(path, create=True)

    def check(self) -> Result:
        """Run `windhover check`."""
        return self.shop("check", self.path, *self.words)


def bad_signature(case: Case) -> Case:
    """Alter the last byte of a signature, which ends a signed file."""
    case.sign().trust(LINE)
    data = bytearray(case.path.read_bytes())
    data[-1] ^= 1
    case.path.write_bytes(data)
    return case


def model_revoked(case: Case) -> Case:
    """Withdraw the model."""
    with open_vqf(case.path) as file:
        digest = file.model_digest
    return case.sign().trust(LINE).revocations(model_digests={digest})


def self_revoked(case: Case) -> Case:
    """Sign a list that withdraws its signer, which no tool of ours makes."""
    signer = case.signer("revoke")
    payload = encode({-70121: 1, -70122: NOW - 10, -70123: [signer.key_id], -70124: []})
    data = sign1(payload, typ=REVOCATIONS_TYPE, signer=signer)
    return case.sign().trust(LINE).revocation_list(data)


def bad_list(case: Case) -> Case:
    """Alter the last byte of a list."""
    case.sign().trust(LINE).revocations()
    path = case.shop.path("list")
    path.write_bytes(altered.last_byte(path.read_bytes()))
    return case


def release_too_old(case: Case) -> Case:
    """Let this machine have seen a later release."""
    case.floors().raise_to("demo", 4)
    return case.sign().trust(LINE)


def revocations_old(case: Case) -> Case:
    """Let this machine have seen a later list."""
    case.floors().raise_revocations(9)
    return case.sign().trust(LINE).revocations(sequence=8)


def floors_unsafe(case: Case) -> Case:
    """Let others write the floors."""
    store = case.floors()
    store.raise_to("demo", 1)
    store.path.chmod(0o666)
    return case.sign().trust(LINE)


CASES = {
    "no-trust": lambda case: case.sign(),
    "not-signed": lambda case: case.trust(LINE),
    "not-sealed": lambda case: case.sign().trust(LINE, sealed=True),
    "bad-signature": bad_signature,
    "unknown-signer": lambda case: (
        (case.shop.key("other", "weights"), case)[1].sign(key="other").trust(LINE)
    ),
    "unknown-line": lambda case: case.sign(line="another").trust(LINE),
    "wrong-line": lambda case: case.sign(key="second").trust(LINE),
    "key-revoked": lambda case: (
        case.sign().trust(LINE).revocations(key_ids={case.key_id("vendor")})
    ),
    "key-expired": lambda case: case.sign().trust(LINE, vendor=PAST),
    "key-not-yet-valid": lambda case: case.sign().trust(LINE, vendor=FUTURE),
    "threshold": lambda case: case.sign().trust(
        line_table("demo", "vendor", "second", threshold=2)
    ),
    "not-yet-valid": lambda case: case.sign("--not-before", "2090-01-01").trust(LINE),
    "expired": lambda case: case.sign(
        "--not-before", "2001-01-01", "--expires", "2001-01-02"
    ).trust(LINE),
    "runtime-too-old": lambda case: case.sign("--least-runtime", "99.0.0").trust(LINE),
    "release-too-old": release_too_old,
    "model-revoked": model_revoked,
    "revocations-missing": lambda case: case.sign().trust(LINE, "[revocations]"),
    "revocations-unknown-signer": lambda case: case.sign().trust(LINE).revocations(key="second"),
    "revocations-self-revoked": self_revoked,
    "revocations-bad-signature": bad_list,
    "revocations-key-not-yet-valid": lambda case: (
        case.sign().trust(LINE, revoke=FUTURE).revocations()
    ),
    "revocations-key-expired": lambda case: case.sign().trust(LINE, revoke=PAST).revocations(),
    "revocations-not-yet-valid": lambda case: (
        case.sign().trust(LINE).revocations(issued=NOW + DAY_S)
    ),
    "revocations-old": revocations_old,
    "revocations-stale": lambda case: (
        case.sign()
        .trust(LINE, "[revocations]\nmaximum_age_days = 2")
        .revocations(issued=NOW - 2 * DAY_S)
    ),
    "floors-unsafe": floors_unsafe,
}


def test_no_reason_is_left_out() -> None:
    assert set(REASONS) - REFUSED_BEFORE <= set(CASES)


@pytest.mark.parametrize("reason", CASES)
def test_a_refusal_has_its_reason(shop: Workshop, reason: str) -> None:
    result = CASES[reason](Case(shop)).check()
    assert (result.exit_code, result.reason) == (1, reason), result.err
    assert result.value["kind"] == "PolicyError"
    assert result.err.count("\n") == 1


def test_the_same_weights_pass_when_nothing_is_wrong(shop: Workshop, state_home: Path) -> None:
    case = Case(shop).sign().sign(key="second")
    case.trust(line_table("demo", "vendor", "second", threshold=2), "[revocations]")
    case.floors().raise_to("demo", 3)
    case.revocations(sequence=5)
    result = case.check()
    assert result.exit_code == 0, result.err
    verdict = result.value["verdict"]
    assert verdict["mode"] == "production"
    assert (verdict["line"], verdict["release"], verdict["floor"]) == ("demo", 3, 3)
    assert verdict["key_ids"] == sorted(case.key_id(name).hex() for name in ("vendor", "second"))
    assert verdict["revocation_sequence"] == 5
    assert verdict["ignored_key_ids"] == []
    assert result.err == ""
    assert default_floors().is_relative_to(state_home)


def test_unsigned_weights_where_the_policy_lets_them_pass(shop: Workshop) -> None:
    path = shop.weights()
    trust = shop.trust(keys={}, signed=False)
    verdict = shop.done("check", path, "--trust", trust).value["verdict"]
    assert (verdict["mode"], verdict["signed"]) == ("production", False)
    assert "release" not in verdict
