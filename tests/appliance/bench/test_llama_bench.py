"""The rival is called the way llama-bench wants it, and whatever it does wrong is said."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from appliance.bench.cases import Case
from appliance.bench.llama_bench import LlamaBench
from engine.errors import ConfigError
from tests.appliance.bench.conftest import FakeLlamaBench


def options(words: list[str]) -> dict[str, str]:
    """Pair option names and values."""
    return dict(zip(words[::2], words[1::2], strict=True))


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    """A file that stands for the weights."""
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    return tmp_path / "x.gguf"


def test_a_prefill_and_a_decode(fake: FakeLlamaBench, gguf: Path) -> None:
    rival = LlamaBench(fake.path, gguf)
    assert rival.measure(Case("prefill", 512, 2048), 2) == 100.0
    assert rival.measure(Case("decode", 64, 0), 1) == 100.0
    prefill, decode = map(options, fake.calls())
    common = {"-m": str(gguf), "-o": "json", "-r": "1", "-ngl": "0"}
    assert prefill == common | {"-t": "2", "-p": "512", "-n": "0", "-d": "2048", "-fa": "1"}
    assert decode == common | {"-t": "1", "-p": "0", "-n": "64", "-d": "0", "-fa": "1"}


@pytest.mark.parametrize("faster", [0, 1])
def test_the_faster_attention_is_measured(fake: FakeLlamaBench, gguf: Path, faster: int) -> None:
    fake.runs(
        "fa = sys.argv[sys.argv.index('-fa') + 1]\n"
        f"print(json.dumps([{{'samples_ts': [200.0 if fa == '{faster}' else 100.0]}}]))"
    )
    rival, case = LlamaBench(fake.path, gguf), Case("decode", 64, 2048)
    assert rival.choose(case, 1) == bool(faster)
    assert rival.measure(case, 1) == 200.0
    # another case has not been decided
    assert rival.measure(Case("decode", 64, 0), 1) == (200.0 if faster else 100.0)


def test_facts_name_program_and_weights(fake: FakeLlamaBench, gguf: Path) -> None:
    rival = LlamaBench(fake.path, gguf)
    rival.measure(Case("decode", 64, 0), 1)
    facts = rival.facts()
    assert facts["build_commit"] == "abc"
    assert facts["gguf"] == "x.gguf"
    assert facts["gguf_sha256"] == hashlib.sha256(b"GGUF").hexdigest()
    assert str(gguf.parent) not in str(facts)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("sys.exit('unknown option -d')", "failed with 1: unknown option -d"),
        ("print('| model |')", "did not print llama-bench's JSON"),
        ("print('[]')", "did not print llama-bench's JSON"),
        ("print('[{}]')", "did not print llama-bench's JSON"),
        ('print(\'[{"samples_ts": ["x"]}]\')', "did not print llama-bench's JSON"),
        ("print('[{\"samples_ts\": [0]}]')", "measured 0.0 tokens per second"),
        ("print('[{\"samples_ts\": [NaN]}]')", "measured nan tokens per second"),
    ],
)
def test_a_rival_that_fails(fake: FakeLlamaBench, gguf: Path, body: str, message: str) -> None:
    fake.runs(body)
    with pytest.raises(ConfigError, match=message.replace("|", r"\|")):
        LlamaBench(fake.path, gguf).measure(Case("decode", 64, 0), 1)


def test_a_rival_that_is_not_there(tmp_path: Path, gguf: Path) -> None:
    rival = LlamaBench(tmp_path / "none", gguf)
    with pytest.raises(FileNotFoundError):
        rival.measure(Case("decode", 64, 0), 1)
    with pytest.raises(FileNotFoundError):
        rival.peak(512, 16, 1)


def test_peak_memory_is_of_one_prompt_and_an_answer(fake: FakeLlamaBench, gguf: Path) -> None:
    assert LlamaBench(fake.path, gguf).peak(512, 16, 1).max_rss_bytes > 1 << 20
    (words,) = fake.calls()
    assert words[-7:] == ["-p", "0", "-n", "0", "-pg", "512,16", "--no-warmup"]
