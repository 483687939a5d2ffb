from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

from he_chain.errors import CheckpointError, SecurityError
from he_chain.parameters import Parameters
from he_chain.records.claims import CLAIMS, LIMITS, security_line
from he_chain.records.record import PROTOCOLS
from he_chain.records.run_folder import Run
from he_chain.reports.measure import measure
from he_chain.reports.plots import plots
from he_chain.reports.report import (
    build_report,
    decode_report,
    encode_report,
    measurement_as_json,
    measurement_from_json,
)
from he_chain.reports.report_text import report_as_markdown
from he_chain.reports.svg import Bars, Chart, Line, number, ticks
from tests.he_chain.report_runs import PlainHolder, make_run, references


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def report(run):
    return build_report(run, measure(run, PlainHolder(), references()))


def test_a_report_reads_as_it_was_written(report):
    data = encode_report(report)
    assert decode_report(data) == json.loads(data)
    assert encode_report(decode_report(data)) == data


def test_pass_is_made_of_numbers(run, report):
    assert report["verdict"]["verdict"] == "PASS"
    assert report["verdict"]["checkpoints"] == 8
    assert report["verdict"]["least_bits"]["x"]["exact"] > 20
    unmeasured = build_report(run, None)
    assert unmeasured["flow"]["finished"]
    assert unmeasured["verdict"]["verdict"] == "INCOMPLETE"


def test_below_the_gate_is_a_fail(tmp_path):
    run = make_run(tmp_path, error=1e-3)
    report = build_report(run, measure(run, PlainHolder(), references()))
    assert report["flow"]["finished"]
    assert report["verdict"]["verdict"] == "FAIL"
    assert len(report["verdict"]["below"]) == 8


def test_a_run_cut_short_does_not_pass(run, report):
    cut = Run(run.folder, run.begin, run.records[:5])
    early = build_report(cut, measure(cut, PlainHolder(), references()))
    assert not early["flow"]["finished"]
    assert early["verdict"]["verdict"] == "INCOMPLETE"


def test_a_checkpoint_left_out_does_not_pass(run, report):
    measured = measurement_from_json(report["measured"])
    fewer = type(measured)(measured.references, measured.checkpoints[1:])
    verdict = build_report(run, fewer)["verdict"]
    assert (verdict["verdict"], verdict["not_measured"]) == ("INCOMPLETE", 1)


def test_sums_are_over_all_hops(report):
    totals = report["totals"]
    assert totals["counts"] == {"rotations": 320, "ct_pt": 800, "ct_ct": 16}
    assert (totals["exchanges"], totals["bytes_up"], totals["cpu_s"]) == (24, 8_000_000, 2.0)
    assert totals["peak_rss_bytes"] == 300_000_000


def test_the_ledger_says_what_each_side_saw(report):
    assert report["ledger"]["holder"][0] == {
        "tensor": "h1",
        "times": 8,
        "values": 64,
        "bits": 53,
        "total_bits": 3392,
    }
    assert [row["total_bits"] for row in report["ledger"]["evaluator"]] == [0]


def test_figures_survive_the_way_through_json(report):
    measured = json.loads(encode_report(report))["measured"]
    assert measurement_as_json(measurement_from_json(measured)) == measured


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]\n",
        b'{"format":"windhover he_chain report 2"}\n',
        b'{"format": "windhover he_chain report 1"}\n',
        b'{"format":"windhover he_chain report 1"}',
        b'{"a":1,"a":1,"format":"windhover he_chain report 1"}\n',
        b'{"a":NaN,"format":"windhover he_chain report 1"}\n',
        b"[" * 100_000,
        bytes([0xFF]),
    ],
    ids=range(9),
)
def test_what_is_no_report_is_refused(data):
    with pytest.raises(CheckpointError):
        decode_report(data)


@pytest.mark.parametrize(
    "value",
    [None, 3, {"references": []}, {"references": 1, "checkpoints": [{}]}, {"checkpoints": 1}],
)
def test_damaged_figures_are_refused(value):
    with pytest.raises(CheckpointError):
        measurement_from_json(value)


def test_markdown_says_verdict_limits_and_every_hop(report):
    text = report_as_markdown(report, ["bits.svg"])
    assert "**PASS**: 8 checkpoints" in text
    assert "That the flow finished says nothing about precision." in text
    assert "IND-CPA-D" in text
    assert "![bits.svg](bits.svg)" in text
    assert text.count("| lay |") == 6
    for line in (*CLAIMS["assist"], *LIMITS):
        assert line in text
    assert report["begin"]["security"] in text


def test_markdown_without_figures_says_so(run):
    text = report_as_markdown(build_report(run, None))
    assert "**INCOMPLETE**: 0 checkpoints" in text
    assert "none measured" in text


def test_markdown_cannot_be_broken_by_a_name(run):
    report = build_report(run, None)
    report["begin"]["libraries"] = {"a|b": "<script>"}
    text = report_as_markdown(report)
    assert "a\\|b &lt;script>" in text


def test_every_protocol_has_claims_and_security_is_checked():
    assert set(CLAIMS) == set(PROTOCOLS)
    assert "128 bits, standard table" in security_line(Parameters(8192, 2), "seal", "assist")
    assert "library claim" in security_line(Parameters(65536, 20), "lattigo", "boot")
    assert security_line(Parameters(1024, 2), "mock", "assist").startswith("none")
    with pytest.raises(SecurityError):
        security_line(Parameters(8192, 5), "seal", "assist")


def test_pictures_are_svg_without_scripts(report):
    made = plots(report)
    assert set(made) == {"levels.svg", "bits.svg", "seconds.svg", "bytes.svg"}
    for text in made.values():
        root = ET.fromstring(text)  # noqa: S314  (our own)
        assert {e.tag.rpartition("}")[2] for e in root.iter()} <= {
            *("svg", "title", "rect", "text", "path", "circle")
        }
    assert "gate 15" in made["bits.svg"]


def test_pictures_without_figures_are_left_out(run):
    bare = build_report(run, None)
    for record in bare["records"]:
        record["levels"] = []
        record["exchanges"] = 0
    bare["totals"]["op_seconds"] = {}
    made = plots(bare)
    assert set(made) == {"levels.svg", "seconds.svg"}
    assert ">lay<" in made["seconds.svg"]
    assert ">6<" in made["seconds.svg"]


def test_ticks_are_round_and_cover():
    assert ticks(0, 7) == [0, 2, 4, 6, 8]
    assert ticks(0, 0) == [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert ticks(-3, 20)[0] <= -3
    for high in (0.013, 1, 19.99, 12345):
        found = ticks(0, high)
        assert found[0] == 0
        assert found[-1] >= high
        assert len(found) <= 8
    assert [number(v) for v in (0.0, 1234567.0, 0.25)] == ["0", "1.23457e+06", "0.25"]


def test_a_chart_draws_what_it_is_given_and_nothing_else():
    chart = Chart("a <b>", "x", "y", [Line("l & m", [(0, 1), (1, 3)]), Bars("b", [2.0, 1.0])])
    text = chart.render()
    assert "a &lt;b&gt;" in text
    assert "l &amp; m" in text
    ET.fromstring(text)  # noqa: S314  (our own)
    with pytest.raises(ValueError, match="nothing"):
        Chart("t", "x", "y").render()
    with pytest.raises(ValueError, match="nothing"):
        Chart("t", "x", "y", [Bars("b", [float("nan")])]).render()
