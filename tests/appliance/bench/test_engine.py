"""The whole benchmark on a tiny model: processes, rounds, files, and what can go wrong."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from appliance.bench import engine
from appliance.bench.cases import Case
from appliance.bench.child import Child, worker_command
from appliance.bench.coldstart import measure_cold_start
from appliance.bench.engine import check_same_weights, describe_weights
from appliance.bench.memory import peak_of
from appliance.bench.width import measure_width
from appliance.cli import bench_engine
from appliance.cli.main import run
from engine.errors import ConfigError
from engine.vqf import open_vqf
from tests.appliance.bench.conftest import FakeLlamaBench
from tests.appliance.bench.test_report import results

QUICK = ["--threads", "1", "--rounds", "2", "--prefill", "16,64", "--depths", "0,32"]
QUICK += ["--decode", "4"]


def test_a_weight_file_is_identified(tiny_vqf: Path) -> None:
    facts = describe_weights(tiny_vqf)
    with open_vqf(tiny_vqf) as file:
        assert facts["model_digest"] == file.model_digest.hex()
    assert facts["kinds"] == {"F32": 261_792}
    assert facts["file"] == "tiny.vqf"


def test_only_the_same_weights_are_compared(tiny_vqf: Path, tiny_gguf: Path) -> None:
    check_same_weights(tiny_vqf, tiny_gguf)
    with pytest.raises(ConfigError, match=r"tiny.vqf has weights \{'F32': 261792\}, qwen3_tiny"):
        check_same_weights(tiny_vqf, tiny_gguf.with_name("qwen3_tiny-q8_0.gguf"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "either FILE or --shape"),
        (["m.vqf", "--shape", "8b-layers", "2"], "either FILE or --shape"),
        (["m.vqf", "--gguf", "m.gguf"], "belong together"),
        (["--shape", "8b-layers", "2", "--gguf", "a", "--llama-bench", "b"], "no GGUF file"),
        (["--shape", "8b-layers", "1"], "--shape"),
        (["m.vqf", "--threads", "1,x"], "list of numbers"),
        (["m.vqf", "--threads", "0"], "from 1 to 256"),
        (["m.vqf", "--prefill", "0"], "from 1 to"),
        (["m.vqf"], "No such file"),
    ],
)
def test_usage(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["bench", "engine", *arguments]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_results_are_not_replaced_unasked(
    tiny_vqf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bench-engine.md").write_text("precious")
    assert run(["bench", "engine", str(tiny_vqf), "--output", str(tmp_path)]) == 2
    assert "bench-engine.md exists already" in capsys.readouterr().err
    assert (tmp_path / "bench-engine.md").read_text() == "precious"


def test_a_script_reads_one_object(
    tiny_vqf: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engine, "measure", lambda *_arguments: results(with_rival=False))
    assert run(["bench", "engine", str(tiny_vqf), "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["llama_bench"] is None
    assert value["series"][0]["ratio"] is None


def test_without_matplotlib_it_is_said_and_the_rest_written(
    tiny_vqf: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(engine, "measure", lambda *_arguments: results(with_rival=True))
    monkeypatch.setattr(bench_engine, "find_spec", lambda _name: None)
    assert run(["bench", "engine", str(tiny_vqf), "--output", str(tmp_path)]) == 0
    assert "install windhover[plots]" in capsys.readouterr().err
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"bench-engine.json", "bench-engine.md"}


@pytest.mark.slow
@pytest.mark.ci
class TestEndToEnd:
    """Everything that starts measuring processes."""

    def test_rounds_files_and_evidence(
        self,
        tiny_vqf: Path,
        tiny_gguf: Path,
        tmp_path: Path,
        fake: FakeLlamaBench,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        output = tmp_path / "new" / "results"
        arguments = ["bench", "engine", str(tiny_vqf), "--gguf", str(tiny_gguf), *QUICK]
        arguments += ["--llama-bench", str(fake.path), "--output", str(output)]
        assert run(arguments) == 0
        assert capsys.readouterr().out == (output / "bench-engine.md").read_text()
        assert (output / "bench-engine.svg").read_text().startswith("<?xml")
        value = json.loads((output / "bench-engine.json").read_text())
        labels = [(s["phase"], s["tokens"], s["depth_tokens"]) for s in value["series"]]
        assert labels == [
            ("prefill", 16, 0),
            ("prefill", 64, 0),
            ("prefill", 64, 32),
            ("decode", 4, 0),
            ("decode", 4, 32),
        ]
        for series in value["series"]:
            assert series["threads"] == 1
            assert series["llama_bench_flash_attention"] is True
            assert len(series["ratio"]["rounds"]) == 2
            assert series["llama_bench_tokens_per_s"]["median"] == 100.0
            assert series["ratio"]["median"] > 0
            assert series["traced_tokens_per_s"]["min"] > 0
        assert value["engine"]["model_digest"] == value["weights"]["model_digest"]
        assert value["engine"]["kernel_path"] in {"avx512", "avx2", "portable", "avx512-emulated"}
        assert min(value["cold_start"]["first_s"], value["cold_start"]["second_median"]) > 0
        assert min(value["sampling"][0]["step_s"], value["sampling"][0]["greedy_s"]) > 0
        (memory,) = value["peak_memory"]
        assert memory["max_rss_bytes"] > memory["llama_bench_max_rss_bytes"] > 0
        # two to choose for each of five cases, two rounds of these, and one of memory
        assert len(fake.calls()) == 21
        assert str(tmp_path) not in (output / "bench-engine.json").read_text()

    def test_a_case_that_does_not_fit_the_context(
        self, tiny_vqf: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        arguments = ["--threads", "1", "--prefill", "5000", "--depths", "0"]
        assert run(["bench", "engine", str(tiny_vqf), *arguments]) == 2
        assert "5000" in capsys.readouterr().err

    def test_a_measuring_process_says_why_it_ended(self, tmp_path: Path) -> None:
        settings = {"file": str(tmp_path / "none"), "threads": 1, "max_positions": 64}
        with pytest.raises(ConfigError, match="FileNotFoundError"):
            Child(settings)
        with pytest.raises(ConfigError, match="KeyError: 'max_positions'"):
            Child({"threads": 1})
        answer = {"path": str(tmp_path / "none"), "threads": 1, "prompt_tokens": 1, "max_tokens": 1}
        with pytest.raises(ConfigError, match=r"failed with 1.*No such file"):
            peak_of(worker_command({"answer_once": answer}))

    def test_a_measuring_process_that_dies_is_seen(self, tiny_vqf: Path) -> None:
        settings = {"file": str(tiny_vqf), "threads": 2, "max_positions": 64}
        with Child(settings) as child:
            assert child.rate(Case("decode", 2, 0), trace=True) > 0
            child._process.kill()
            with pytest.raises(ConfigError, match="ended with -9"):
                child.rate(Case("decode", 2, 0), trace=False)

    def test_no_process_outlives_its_parent_object(self, tiny_vqf: Path) -> None:
        with Child({"file": str(tiny_vqf), "threads": 1, "max_positions": 64}) as child:
            process = child._process
            assert process.poll() is None
        assert process.poll() is not None

    def test_a_cold_start_that_fails(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"failed with 2: .*No such file"):
            measure_cold_start(tmp_path / "none.vqf", threads=1)

    def test_width(self) -> None:
        done: list[tuple[int, int]] = []
        cases = [Case("prefill", 8, 0), Case("decode", 1, 0)]
        measured = measure_width(2, "Q4_0", cases, (1,), 1, lambda n, of: done.append((n, of)))
        assert done == [(1, 2), (2, 2)]
        assert [row.case for row in measured.rows] == cases
        # a layer's time is a difference of two timings: on a busy machine it can be anything
        assert all(isinstance(row.layer_ms, float) for row in measured.rows)
        json.dumps(measured.as_json(), allow_nan=False)


def test_the_group_lists_its_benchmarks() -> None:
    program = "from appliance.cli.main import main; main()"
    words = [*worker_command({})[:2], program, "bench", "--help"]
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    assert "engine" in text
    assert "quality" in text
