"""Attested answers of the command line, verified as an auditor would."""

from __future__ import annotations

import io
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from appliance.api.parse import parse_request
from appliance.bundle import decode_bundle
from appliance.cli import attested_answer
from appliance.log.files import LogFiles
from crypto.cose import decode_sign1
from crypto.evidence import MAX_OBJECT_BYTES
from crypto.keys import load_public_key
from crypto.sm3 import sm3
from crypto.statement import decode_statement
from crypto.transcript import decode_transcript
from engine.errors import NonFiniteError
from tests.appliance.cli.workshop import Workshop, line_table
from verifier.expectations import Expectations
from verifier.verify import verify

NONCE = "00112233445566778899AABBccddeeff"
SOFTWARE = sm3(b"software")


class Appliance:
    """A signed model, a log, and a trust file that pins both."""

    def __init__(self, shop: Workshop, weights: Path) -> None:
        """Make keys, release, list of revocations, log and trust file."""
        self.shop = shop
        for name, role in (("vendor", "weights"), ("self", "attest"), ("withdraw", "revoke")):
            shop.key(name, role)
        self.model = shop.path("model.vqf")
        shutil.copyfile(weights, self.model)
        shop.done(
            "sign", self.model, "--key", shop.path("vendor.pem"), "--line", "tiny", "--release", 3
        )
        self.revocations = shop.path("revocations")
        key = shop.path("withdraw.pem")
        shop.done("revoke", self.revocations, "--key", key, "--sequence", 5)
        self.log, self.anchor = shop.path("log"), shop.path("anchor")
        self.key = shop.path("self.pem")
        made = shop.done(
            "log", "new", self.log, "--key", self.key, "--issuer", "box", "--anchor", self.anchor
        )
        self.trust = shop.trust(
            line_table("tiny", "vendor"),
            "[revocations]\nrequired = true",
            f'[logs.box]\nid = "{made.value["log_id"]}"',
            keys={"vendor": "weights", "self": "attest", "withdraw": "revoke"},
        )
        self.bundle = shop.path("bundle")

    def generate(self, *words: object, bundle: bool = True) -> Any:
        """Run `generate` with everything that an attested answer needs."""
        where = ("--bundle", self.bundle) if bundle else ()
        return self.shop(
            *("generate", self.model, "--trust", self.trust, "--revocations", self.revocations),
            *("--attest-key", self.key, "--log", self.log, "--anchor", self.anchor, *where),
            *("--threads", 1, "--context", 512, *words),
        )

    def report(self, data: bytes | None = None, **expected: Any) -> Any:
        """Verify the bundle, or these bytes, with the trust file."""
        read = self.bundle.read_bytes() if data is None else data
        return verify(read, self.trust.read_bytes(), Expectations(**expected))

    def statement(self) -> Any:
        """Return what the last entry of the log says."""
        files = LogFiles(self.log, None)
        signed = files.entry(files.head.size - 1).body
        return decode_statement(decode_sign1(signed, max_bytes=MAX_OBJECT_BYTES).payload)


@pytest.fixture
def appliance(tmp_path: Path, tiny_file: Path, monkeypatch: pytest.MonkeyPatch) -> Appliance:
    """An appliance whose software digest costs nothing."""
    monkeypatch.setattr(attested_answer, "begin_software_digest", lambda: lambda: SOFTWARE)
    return Appliance(Workshop(tmp_path), tiny_file)


def test_an_answer_in_production_passes_every_step(appliance: Appliance):
    result = appliance.generate("--prompt", "hi", "--max-tokens", 6, "--nonce", NONCE)
    assert result.exit_code == 0, result.err
    report = appliance.report(nonce=bytes.fromhex(NONCE))
    assert (report.verdict, report.reason) == ("PASS", "ok")
    assert {step.result for step in report.steps} == {"passed"}
    assert len(report.steps) == 25
    assert stat.S_IMODE(appliance.bundle.stat().st_mode) == 0o600
    bundle = decode_bundle(appliance.bundle.read_bytes())
    path, body = bundle.texts["request"].split(b"\0", 1)
    parsed = parse_request(path.decode(), body)
    (message,) = parsed.messages
    assert (message.role, message.content) == ("user", "hi")
    assert parsed.sampling.temperature_millionths == 700_000
    statement = appliance.statement()
    assert (statement.line, statement.release, statement.mode) == ("tiny", 3, "production")
    assert statement.issuer == "box"
    assert statement.software_digest == SOFTWARE
    assert statement.revocation_sequence == 5
    said = result.value["attestation"]
    assert said["sequence"] == statement.sequence
    assert said["log_id"] == statement.log_id.hex()
    assert said["seed_source"] == statement.seed_source == "nonce"
    assert result.value["seed"] == statement.seed
    assert result.value["trace_root"] == bundle.texts["trace"].hex()
    content = decode_transcript(bundle.texts["transcript"]).entries[0].data
    assert content.decode() == result.value["text"]
    ids = b"".join(i.to_bytes(4, "little") for i in result.value["token_ids"])
    assert bundle.texts["output_ids"] == ids


def test_the_answer_is_that_of_the_same_seed_without_a_statement(appliance: Appliance):
    words = ("--raw", "--prompt", "The sky", "--max-tokens", 8, "--temperature", "1.5", "--seed", 9)
    attested = appliance.generate(*words, "--top-p", "0.9", "--stop", "zz").value
    plain = appliance.shop.done(
        *("generate", appliance.model, "--dev", "--threads", 1, "--context", 512),
        *(*words, "--top-p", "0.9", "--stop", "zz"),
    ).value
    for name in ("text", "token_ids", "trace_root", "finish_reason", "prompt_tokens", "seed"):
        assert attested[name] == plain[name], name
    assert "attestation" not in plain
    assert attested["attestation"]["seed_source"] == "request"
    assert appliance.report().verdict == "PASS"


def test_a_bundle_handed_on_in_part_verifies_and_tells_nothing_more(appliance: Appliance):
    appliance.generate("--prompt", "my secret", "--max-tokens", 3)
    copy = appliance.shop.path("copy")
    result = appliance.shop.done("bundle", "strip", appliance.bundle, copy, "--keep", "transcript")
    assert result.value["kept"] == ["transcript"]
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    data = copy.read_bytes()
    assert b"my secret" not in data
    whole = decode_bundle(appliance.bundle.read_bytes())
    assert not [name for name, salt in whole.salts.items() if salt in data and name != "transcript"]
    report = appliance.report(data)
    assert (report.verdict, report.reason) == ("INCOMPLETE", "no-request")
    assert appliance.report(data, need=("A0", "A1", "A3")).verdict == "PASS"
    assert appliance.shop("bundle", "strip", appliance.bundle, copy).exit_code == 2
    assert appliance.shop("bundle", "strip", appliance.trust, copy, "--force").exit_code == 1
    assert copy.read_bytes() == data


def test_a_failure_after_the_admission_is_attested(
    appliance: Appliance, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_arguments: Any, on_text: Any, **_others: Any) -> Any:
        on_text("so far")
        raise NonFiniteError("a value is not finite")

    monkeypatch.setattr(attested_answer, "generate", fail)
    assert appliance.generate("--prompt", "hi").exit_code == 1
    statement = appliance.statement()
    assert (statement.outcome, statement.finish_reason) == ("error", "error")
    report = appliance.report()
    assert (report.verdict, report.reason) == ("INCOMPLETE", "not-covered")
    bundle = decode_bundle(appliance.bundle.read_bytes())
    assert b"so far" in bundle.texts["transcript"]


@pytest.mark.parametrize(
    ("error", "outcome"), [(KeyboardInterrupt(), "cancelled"), (BrokenPipeError(), "disconnected")]
)
def test_whoever_goes_away_is_attested(
    appliance: Appliance, monkeypatch: pytest.MonkeyPatch, error: BaseException, outcome: str
):
    def stop(*_arguments: Any, **_others: Any) -> Any:
        raise error

    monkeypatch.setattr(attested_answer, "generate", stop)
    # a stdout that broke is replaced, which the one of a test cannot be
    with suppress(io.UnsupportedOperation):
        assert appliance.generate("--prompt", "hi", bundle=False).exit_code == 130
    statement = appliance.statement()
    assert (statement.outcome, statement.finish_reason) == (outcome, "cancelled")


def test_what_cannot_be_answered_is_not_admitted(appliance: Appliance):
    def entries() -> int:
        return LogFiles(appliance.log, None).head.size

    assert appliance.generate("--prompt", "hi", "--max-tokens", 2).exit_code == 0
    for words, bundle in (
        (("--prompt", "hi", "--max-tokens", 5000), False),
        (("--prompt", "hi", "--max-tokens", 2), True),  # which is there already
    ):
        before, told = entries(), appliance.bundle.read_bytes()
        assert appliance.generate(*words, bundle=bundle).exit_code == 2
        assert entries() == before + 1  # the event of the start
        assert appliance.bundle.read_bytes() == told


def test_only_signatures_that_counted_go_with_an_answer(appliance: Appliance):
    shop = appliance.shop
    words = ("sign", appliance.model, "--line", "tiny", "--release", 3, "--key")
    shop.done(*words, shop.key("stranger", "weights"))
    assert appliance.generate("--prompt", "hi", "--max-tokens", 2).exit_code == 0
    releases = decode_bundle(appliance.bundle.read_bytes()).releases
    assert releases is not None
    vendor = load_public_key(shop.public("vendor"), role="weights")
    signers = [decode_sign1(data, max_bytes=MAX_OBJECT_BYTES).key_id for data in releases]
    assert signers == [vendor.key_id]
    assert appliance.report().verdict == "PASS"


@pytest.mark.parametrize(
    "nonce", ["", "00", "0" * 31, "0" * 33, "0" * 130, "g" * 32, "0x" + "0" * 32]
)
def test_a_nonce_has_whole_bytes(appliance: Appliance, nonce: str):
    assert appliance.generate("--prompt", "hi", "--nonce", nonce).exit_code == 2


def test_options_that_go_together(appliance: Appliance):
    shop = appliance.shop
    key, log, anchor = appliance.key, appliance.log, appliance.anchor
    for words in (
        ("--attest-key", key),
        ("--attest-key", key, "--log", log),
        ("--log", log, "--anchor", anchor),
        ("--bundle", appliance.bundle),
        ("--nonce", NONCE),
    ):
        result = shop("generate", appliance.model, "--dev", "--prompt", "hi", *words)
        assert result.exit_code == 2
        assert "go together" in result.value["error"]


def test_a_key_of_another_role_signs_nothing(appliance: Appliance):
    appliance.key = appliance.shop.path("vendor.pem")
    before = LogFiles(appliance.log, None).head.size
    result = appliance.generate("--prompt", "hi")
    assert (result.exit_code, result.reason) == (2, "role")
    assert LogFiles(appliance.log, None).head.size == before


def test_without_its_anchor_no_answer(appliance: Appliance):
    appliance.generate("--prompt", "hi", "--max-tokens", 2, bundle=False)
    appliance.anchor.unlink()
    result = appliance.generate("--prompt", "hi", "--max-tokens", 2)
    assert (result.exit_code, result.reason) == (1, "anchor-missing")
    assert not appliance.bundle.exists()
