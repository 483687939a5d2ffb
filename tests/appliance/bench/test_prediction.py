"""The arithmetic of a token: bytes by speeds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from appliance.bench.ciphers import CipherSpeed
from appliance.bench.prediction import (
    Speeds,
    TokenBytes,
    measured_of,
    predict,
    token_bytes,
)
from appliance.bench.reading import Speed
from engine.vqf import open_vqf

NEEDED = TokenBytes(layers=800, head=200, row=0)
SPEEDS = Speeds(cold_read=100, cold_map=50, warm_map=2000, cached=500, mark=250, cipher=200)


def test_bytes_of_a_file(tiny_vqf: Path) -> None:
    with open_vqf(tiny_vqf) as file:
        manifest = file.manifest
    sizes = {extent.name: extent.size_bytes for extent in manifest.extents}
    layers = sum(sizes[f"layers.{n}"] for n in range(manifest.config.num_layers))
    for tied in (True, False):
        given = replace(manifest, config=replace(manifest.config, tied_embeddings=tied))
        head = sizes["final"] + (sizes["embedding"] if tied else 0)
        assert token_bytes(given) == TokenBytes(layers, head, 0 if tied else 4096)


def test_what_a_row_costs() -> None:
    needed = NEEDED._replace(row=4096)
    assert (NEEDED.mapped, NEEDED.verified) == (1000, 1000)
    assert (needed.mapped, needed.verified) == (1000 + 4096, 1000 + (1 << 20))


def test_the_fastest_count() -> None:
    reading = [
        Speed("direct", "sequential", 1, [1e9]),
        Speed("direct", "extents", 1, [100, 90, 110]),
        Speed("direct", "extents", 2, [120, 130, 110]),
        Speed("buffered", "extents", 1, [110]),
        Speed("cached", "extents", 1, [500]),
        Speed("mapped-willneed", "extents", 1, [50]),
        Speed("mapped-populate", "extents", 1, [60]),
        Speed("mapped-warm", "extents", 1, [2000]),
        Speed("mapped-populate-warm", "extents", 1, [1000]),
    ]
    ciphers = [
        CipherSpeed(kind, threads, [rate * threads])
        for kind, rate in (("mark", 1), ("cipher", 2))
        for threads in (2, 4)
    ]
    assert Speeds.of(reading, ciphers, 2) == Speeds(120, 60, 2000, 500, 2, 4)
    assert Speeds.of(reading, ciphers, 1) == Speeds(120, 60, 2000, 500, 2, 4)
    assert Speeds.of(reading, ciphers, 8).cipher == 8


def test_predictions() -> None:
    measured = {("verified-stream", "sealed", "bounded"): (20.0,)}
    found = {
        (each.mode, each.form, each.state): each
        for each in predict(NEEDED, SPEEDS, compute_s=3.0, measured=measured)
    }
    sums = {key: (each.least_s, each.most_s) for key, each in found.items()}
    assert sums == {
        ("stream", "plain", "bounded"): (20.0, 23.5),
        ("stream", "plain", "cached"): (3.5, 3.5),
        ("verified-stream", "signed", "bounded"): (10.0, 17.0),
        ("verified-stream", "signed", "cached"): (9.0, 9.0),
        ("verified-stream", "sealed", "bounded"): (12.0, 22.0),
        ("verified-stream", "sealed", "cached"): (14.0, 14.0),
    }
    told = found["verified-stream", "sealed", "bounded"].as_json()
    assert told["work_s"] == {"mark": 4.0, "cipher": 5.0, "compute": 3.0}
    assert told["measured"] == [
        {"s_per_token": 20.0, "of_least": pytest.approx(20 / 12), "of_most": pytest.approx(20 / 22)}
    ]


def test_without_the_seconds_of_computing() -> None:
    for each in predict(NEEDED, SPEEDS, compute_s=None, measured={}):
        assert "compute" not in each.work_s
        assert each.as_json()["measured"] == []


def test_measured_runs_by_mode_form_and_state() -> None:
    def run(mode: str, median: float | None) -> dict[str, object]:
        return {
            "plan": {"mode": mode, "state": "cached"},
            "file": {"form": "plain"},
            "timings": {"s_per_token": None if median is None else {"median": median}},
        }

    found = measured_of([run("full", 1.0), run("full", 2.0), run("stream", 3.0), run("full", None)])
    assert found == {("full", "plain", "cached"): [1.0, 2.0], ("stream", "plain", "cached"): [3.0]}
