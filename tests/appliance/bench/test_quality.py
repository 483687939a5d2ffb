"""Perplexity and distances, on models whose answers are known beforehand."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from appliance.bench import quality
from appliance.bench.quality import Subject, evaluate, log_probabilities, pinned_windows, windows
from appliance.cli.main import run
from engine.errors import ConfigError

GOLDEN = Path(__file__).resolve().parents[2] / "data" / "smollm2" / "golden.json"


@pytest.fixture
def text() -> np.ndarray:
    """Two windows of ids."""
    return windows(np.arange(1100) * 7 % 400)


def test_windows_drop_the_rest() -> None:
    assert windows(range(1100)).shape == (2, 512)
    assert windows(range(1100))[1, 0] == 512
    with pytest.raises(ConfigError, match="at least 512 tokens, this one has 511"):
        windows(range(511))


def test_the_pinned_text() -> None:
    ids = pinned_windows(49152)
    assert ids.shape == (6, 512)
    assert ids[0, :8].tolist() == [504, 476, 3391, 18, 4814, 198, 16540, 5398]
    assert len(json.loads(GOLDEN.read_text())["window_nll"]) == len(ids)
    with pytest.raises(ConfigError, match="--text"):
        pinned_windows(49153)


def test_log_probabilities() -> None:
    logits = np.array([[0.0, 0.0, 0.0, 0.0], [1000.0, 0.0, 0.0, 0.0]], np.float32)
    found = log_probabilities(logits)
    assert found[0].tolist() == [-math.log(4)] * 4
    assert found[1].tolist() == [0.0, -1000.0, -1000.0, -1000.0]


def test_a_model_equals_itself(tiny_vqf: Path, text: np.ndarray) -> None:
    subject = Subject(tiny_vqf, float_profile=True)
    reference, same = evaluate([subject, subject], lambda _: text, threads=1)
    assert reference.logprob_difference is None
    assert same.window_nll == reference.window_nll
    assert (same.logprob_difference, same.same_choice) == (0.0, 1.0)
    assert same.divergence == 0.0
    assert same.perplexity == pytest.approx(math.exp(sum(same.window_nll) / 2))


def test_what_rounding_costs_is_seen(tiny_vqf: Path, text: np.ndarray) -> None:
    subjects = [Subject(tiny_vqf, float_profile=True), Subject(tiny_vqf, float_profile=False)]
    done: list[tuple[int, int]] = []
    _, rounded = evaluate(
        subjects, lambda _: text, threads=1, progress=lambda n, of: done.append((n, of))
    )
    assert 0.0 < rounded.logprob_difference < 0.01
    assert 0.0 < rounded.divergence < 0.001
    assert 0.9 < rounded.same_choice <= 1.0
    assert done == [(1, 2), (2, 2)]


def test_divergence_and_difference_are_what_they_are_called() -> None:
    sums = quality._Sums(Subject(Path("x"), float_profile=False))
    own, reference = np.log([[0.5, 0.5]]), np.log([[0.25, 0.75]])
    nll = sums.add(own, np.array([1], np.int32), reference)
    sums.window_nll.append(nll)
    score = sums.score(is_reference=False)
    assert score.perplexity == pytest.approx(2.0)
    assert score.logprob_difference == pytest.approx(math.log(1.5))
    assert score.divergence == pytest.approx(0.25 * math.log(0.5) + 0.75 * math.log(1.5))
    assert score.same_choice == 0.0


def test_the_command(tiny_vqf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text").write_text("Windhover, an old English name of the kestrel. " * 60)
    arguments = ["bench", "quality", str(tiny_vqf), "--text", str(tmp_path / "text")]
    assert run([*arguments, "--threads", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("|")[2].strip() for line in lines[2:]] == ["wh1-float", "wh1"]
    assert run([*arguments, "--reference", str(tiny_vqf), "--json"]) == 0
    value = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [score["profile"] for score in value["scores"]] == ["wh1-float", "wh1-float", "wh1"]
    assert value["scores"][1]["mean_abs_logprob_difference"] == 0.0


@pytest.mark.parametrize(
    ("text", "message"),
    [(b"short", "at least 512 tokens"), (b"a\xff", "not UTF-8 at byte 1"), (None, "--text")],
)
def test_texts_that_cannot_be_scored(
    tiny_vqf: Path,
    tmp_path: Path,
    text: bytes | None,
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["bench", "quality", str(tiny_vqf)]
    if text is not None:
        (tmp_path / "text").write_bytes(text)
        arguments += ["--text", str(tmp_path / "text")]
    assert run(arguments) == 2
    assert message in capsys.readouterr().err
