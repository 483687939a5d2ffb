"""`windhover audit`: verdicts, exit codes and reports over a real attested answer."""

from __future__ import annotations

import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.bundle import decode_bundle
from appliance.cli import attested_answer
from appliance.cli.main import run
from engine.convert.convert import convert
from tests import altered
from tests.appliance.cli.test_attest import SOFTWARE, Appliance
from tests.appliance.cli.workshop import Workshop
from tests.engine.convert.support import tiny_folder

COUNT = 40


@pytest.fixture
def appliance(tmp_path: Path, tiny_file: Path, monkeypatch: pytest.MonkeyPatch) -> Appliance:
    """An appliance that has answered once."""
    monkeypatch.setattr(attested_answer, "begin_software_digest", lambda: lambda: SOFTWARE)
    appliance = Appliance(Workshop(tmp_path), tiny_file)
    answered = appliance.generate("--prompt", "hi", "--max-tokens", 6, "--nonce", "00" * 16)
    assert answered.exit_code == 0, answered.err
    return appliance


def audit(appliance: Appliance, *words: object, trust: bool = True) -> Any:
    whom = ("--trust", appliance.trust) if trust else ()
    return appliance.shop(
        *("audit", appliance.bundle, "--weights", appliance.model, "--threads", 1, *whom, *words)
    )


def keep(appliance: Appliance, *names: str) -> None:
    bundle = decode_bundle(appliance.bundle.read_bytes())
    appliance.bundle.write_bytes(bundle.strip(names).encode())


@pytest.mark.parametrize("threads", [1, 2])
def test_a_replay_of_an_honest_answer_passes(appliance: Appliance, threads: int) -> None:
    result = audit(appliance, "--full", "--threads", threads)
    assert result.exit_code == 0, result.value
    assert (result.value["verdict"], result.value["reason"]) == ("PASS", "ok")
    assert {step["result"] for step in result.value["steps"]} == {"passed"}
    assert result.value["verifier"]["verdict"] == "PASS"
    assert result.value["not_checked"] == []
    assert any("other answer" in text for text in result.value["never_shown"])


def test_every_way_to_ask(appliance: Appliance) -> None:
    appliance.bundle.unlink()
    words = ("--raw", "--stop", "e", "--top-p", "0.8", "--temperature", "1.4", "--max-tokens", 20)
    assert appliance.generate("--prompt", "The sky", *words).exit_code == 0
    result = audit(appliance, "--full")
    assert result.exit_code == 0, result.value["steps"]
    # No seed and no nonce: the appliance could have drawn again, which no replay can show.
    assert "steerable" in result.value["verifier"]["appliance_says"]["seed from"]


def test_a_signature_that_does_not_verify_outweighs_a_replay(appliance: Appliance) -> None:
    bundle = decode_bundle(appliance.bundle.read_bytes())
    forged = altered.last_byte(bundle.statement)
    appliance.bundle.write_bytes(replace(bundle, statement=forged).encode())
    result = audit(appliance, "--full")
    assert (result.exit_code, result.value["reason"]) == (1, "statement-signature")
    assert {step["result"] for step in result.value["steps"]} == {"passed"}


def test_the_text_half_reads_no_layer(appliance: Appliance) -> None:
    result = audit(appliance, "--text")
    assert (result.exit_code, result.value["verdict"]) == (0, "PASS")
    assert result.value["weights_bytes_read"] == 0
    assert {step["rung"] for step in result.value["steps"]} == {"text"}


def test_without_a_trust_file_nobody_says_who_signed(appliance: Appliance) -> None:
    result = audit(appliance, "--full", trust=False)
    assert (result.exit_code, result.value["reason"]) == (3, "no-trust")
    assert {step["result"] for step in result.value["steps"]} == {"passed"}
    assert result.value["verifier"] is None


def test_what_is_missing_is_named(appliance: Appliance) -> None:
    keep(appliance, "prompt_ids", "output_ids", "trace", "transcript")
    result = audit(appliance, "--full")
    assert (result.exit_code, result.value["reason"]) == (3, "no-request")
    results = {step["step"]: step["result"] for step in result.value["steps"]}
    assert results["choices"] == results["trace"] == "passed"
    assert results["prompt-ids"] == "open"


def test_other_weights_are_no_evidence(appliance: Appliance, tmp_path: Path) -> None:
    other = tmp_path / "q4.vqf"
    convert(tiny_folder(tmp_path / "qwen2_tiny", "qwen2_tiny"), other, quant="q4")
    (tmp_path / "opening").write_bytes(b"\xa0")
    for rung in (("--full",), ("--text",), ("--opening", tmp_path / "opening")):
        result = audit(appliance, *rung, "--weights", other)
        assert (result.exit_code, result.value["reason"]) == (3, "other-model")
        results = [step["result"] for step in result.value["steps"] if step["step"] == "model"]
        assert results == ["open"]


def test_what_is_no_bundle_fails(appliance: Appliance) -> None:
    appliance.bundle.write_bytes(b"\xa0")
    result = audit(appliance, "--full", trust=False)
    assert (result.exit_code, result.value["reason"]) == (1, "bundle-format")


def test_a_person_reads_every_step(
    appliance: Appliance, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--weights", str(appliance.model), "--trust", str(appliance.trust), "--full"]
    assert run(["audit", str(appliance.bundle), *words]) == 0
    out = capsys.readouterr().out
    assert out.startswith("PASS: ok\n")
    assert "every token is the one that follows" in out
    assert "This can never show" in out


def open_it(appliance: Appliance, opening: Path, challenge: str, count: int) -> None:
    appliance.shop.done(
        *("open", appliance.bundle, opening, "--weights", appliance.model),
        *("--challenge", challenge, "--count", count, "--force"),
    )


def test_a_challenge_is_drawn_once_and_answered(
    appliance: Appliance, tmp_path: Path, state_home: Path
) -> None:
    opening = tmp_path / "opening"
    drawn = audit(appliance, "--new-challenge", "--count", COUNT)
    assert drawn.exit_code == 0, drawn.err
    assert drawn.value["drawn"] is True
    (kept,) = (state_home / "windhover" / "challenges").iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    again = audit(appliance, "--new-challenge", "--count", 1).value
    assert again == drawn.value | {"drawn": False}
    open_it(appliance, opening, drawn.value["challenge"], COUNT)
    result = audit(appliance, "--opening", opening)
    assert (result.exit_code, result.value["verdict"]) == (0, "PASS"), result.value
    chances = {row["fraction"]: row["probability"] for row in result.value["detection"]}
    assert chances[0.5] == 1 - 0.5**COUNT
    assert 0 < result.value["weights_bytes_read"] < result.value["weights_file_bytes"]
    # The operator would rather have answered another one.
    open_it(appliance, opening, "77" * 32, COUNT)
    foreign = audit(appliance, "--opening", opening)
    assert (foreign.exit_code, foreign.value["reason"]) == (3, "challenge-foreign")
    undrawn = audit(appliance, "--opening", opening, "--challenges", tmp_path / "empty")
    assert (undrawn.exit_code, undrawn.value["reason"]) == (3, "challenge-not-drawn")
    kept.write_bytes(b"\xa0")
    assert audit(appliance, "--opening", opening).exit_code == 1


def test_an_opening_that_does_not_fit_fails(appliance: Appliance, tmp_path: Path) -> None:
    (tmp_path / "opening").write_bytes(b"\xa0")
    result = audit(appliance, "--opening", tmp_path / "opening")
    assert (result.exit_code, result.value["reason"]) == (1, "opening-format")
    assert result.value["weights_bytes_read"] == 0


def test_no_challenge_before_there_is_proof(appliance: Appliance, tmp_path: Path) -> None:
    where = ("--challenges", tmp_path / "challenges")
    assert audit(appliance, "--new-challenge", *where, trust=False).exit_code == 2
    bundle = decode_bundle(appliance.bundle.read_bytes())
    appliance.bundle.write_bytes(replace(bundle, inclusion=None).encode())
    result = audit(appliance, "--new-challenge", *where)
    assert (result.value["drawn"], result.value["reason"]) == (False, "not-in-a-verified-log")
    assert not (tmp_path / "challenges").exists()


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--full", "--text"),
        ("--full", "--new-challenge"),
        ("--full", "--need", "A9", "--trust", "trust.toml"),
    ],
)
def test_usage(appliance: Appliance, words: tuple[str, ...], monkeypatch) -> None:
    monkeypatch.chdir(appliance.shop.folder)
    assert audit(appliance, *words, trust=False).exit_code == 2


def test_nothing_compiled_is_imported_before_it_is_needed() -> None:
    """A text audit runs where numba does not, and `--help` does not wait for it."""
    code = (
        "import sys, appliance.cli.audit, appliance.cli.open, engine.audit.text;"
        "sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
