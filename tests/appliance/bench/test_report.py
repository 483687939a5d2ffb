"""Tables and plots say what was measured."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

from appliance.bench.cases import Case, Series
from appliance.bench.coldstart import ColdStart
from appliance.bench.engine import Memory, Results
from appliance.bench.memory import Peak
from appliance.bench.plot import draw
from appliance.bench.report import engine_report, width_report
from appliance.bench.table import table
from appliance.bench.width import WidthResults, WidthRow


def results(*, with_rival: bool) -> Results:
    """Numbers that are easy to recognise."""
    theirs = [100.0, 100.0, 100.0] if with_rival else []
    peak = Peak(160_000_000, 1.0) if with_rival else None
    found = Results({"file": "m.vqf", "model_digest": "00"}, machine={"cpu": "C", "usable_cores": 2,
                    "system": "S"})  # fmt: skip
    found.engine = {"kernel_path": "avx2"}
    found.rival = {"build_commit": "abc", "gguf": "m.gguf"} if with_rival else None
    for threads in (1, 2):
        for case in (Case("prefill", 512, 0), Case("decode", 64, 2048)):
            plain = [200.0 * threads, 150.0 * threads, 400.0 * threads]
            traced = [speed / 1.25 for speed in plain]
            found.series.append(Series(case, threads, plain, traced, list(theirs), False))
        found.memory.append(Memory(threads, Peak(330_000_000, 1.0), peak))
        found.sampling[threads] = {"step_s": 0.01, "sample_s": 0.0003, "greedy_s": 0.0001}
    found.cold_start = ColdStart(2, 30.0, 1.5, (1.5, 1.4, 1.9))
    return found


def cells(text: str, first: str) -> list[list[str]]:
    """Return the cells of the table rows that start with a word."""
    rows = [line.strip("| ").split("|") for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in rows if row[0].strip() == first]


def test_a_table_is_aligned() -> None:
    assert table(("case", "n"), [("a", "1"), ("long one", "100")]) == [
        "| case     |   n |",
        "| -------- | --: |",
        "| a        |   1 |",
        "| long one | 100 |",
    ]


def test_speeds_with_a_rival() -> None:
    text = engine_report(results(with_rival=True))
    assert "kernel path avx2" in text
    assert "llama.cpp abc on m.gguf" in text
    one, two = cells(text, "prefill 512")
    assert one[1:] == ["200", "160", "25.0 %", "100", "2.00", "1.50 to 4.00", "4.00", "plain"]
    assert two[1:3] == ["400", "320"]
    assert cells(text, "1")[-1] == ["1", "330 MB", "160 MB", "170 MB"]
    assert "1.50 s (1.40 to 1.90); 30.0 s" in text


def test_speeds_alone() -> None:
    text = engine_report(results(with_rival=False))
    assert "llama.cpp" not in text
    assert cells(text, "decode at 2048")[0][1:] == ["200", "160", "25.0 %"]
    assert cells(text, "1") == [["1", "10.00 ms", "0.300 ms", "3.0 %"], ["1", "330 MB"]]


@pytest.mark.parametrize("with_rival", [True, False])
def test_the_evidence_holds_every_number(with_rival: bool) -> None:
    value = json.loads(json.dumps(results(with_rival=with_rival).as_json(), allow_nan=False))
    assert value["schema"] == "windhover-bench-engine/1"
    assert [len(series["tokens_per_s"]["rounds"]) for series in value["series"]] == [3] * 4
    assert value["sampling"][0]["share"] == pytest.approx(0.03)
    assert value["peak_memory"][1]["max_rss_bytes"] == 330_000_000
    assert value["cold_start"]["second_median"] == 1.5
    assert value["cold_start"]["threads"] == 2
    expected = 160_000_000 if with_rival else None
    assert value["peak_memory"][0]["llama_bench_max_rss_bytes"] == expected


@pytest.mark.parametrize("with_rival", [True, False])
def test_the_plot_names_cases_and_ratios(with_rival: bool) -> None:
    picture = draw(results(with_rival=with_rival))
    ET.fromstring(picture)  # noqa: S314 - made in the line before
    comments = picture.decode()
    assert "<!-- decode at 2048 -->" in comments
    assert "<!-- decode, 2 threads -->" in comments
    assert ("<!-- 2.00x -->" in comments) == with_rival


def test_the_width_report_is_about_32_layers() -> None:
    row = WidthRow(Case("prefill", 512, 0), 1, 10.0, 10.0, 1.0)
    assert row.total_ms(32) == 330.0
    assert row.trace_cost == pytest.approx(0.1)
    wide = WidthResults("Q4_0", 3, {"kernel_path": "avx2"}, [row])
    text = width_report(wide)
    assert cells(text, "prefill 512")[0][1:] == ["1", "10.00", "10.00", "1.000", "10.0 %"]
    value = wide.as_json()
    assert value["rows"][0]["trace_cost_32_layers"] == pytest.approx(0.1)
    assert value["shape"]["measured_layers"] == [1, 3]
