"""The operator's page in a real Chromium."""

from __future__ import annotations

import pytest

from tests.appliance.pages.code_case import needs_node, run_cases

STATUS = {
    "state": "ready", "ready": True, "reasons": [], "time_ms": 1_764_460_900_000,
    "started_ms": 1_764_460_800_000, "uptime_s": 93_784, "mode": "production",
    "issuer": "appliance-7",
    "model": {
        "name": "smollm2-135m", "file": "m.vqf", "model_digest": "ab" * 32, "verdict": "signed",
        "line": "smollm2-135m", "release": 12, "numerics": "wh1", "kernel_path": "x86-64-avx2",
        "residency": "full", "write_xor_execute": "locked", "layers": 30, "context_tokens": 8192,
        "resident_bytes": 143_000_000,
    },
    "log": {"state": "ready", "log_id": "cd" * 32, "size": 4321, "root": "ef" * 32,
            "time_ms": 1_764_460_890_000, "open_admissions": 1, "segments_away": 0},
    "keys": {"active": 3, "failure": None},
    "requests": {"running": 1, "queued": 0, "prompt_tokens": 1000, "generated_tokens": 2000,
                 "cached_tokens": 10, "disconnects": 2, "open": 1, "max_running": 8,
                 "max_queued": 24},
    "memory": {"resident_bytes": 3 << 30},
    "start": {"seconds": 12.34, "memory": {"locked": True}, "lost_admissions": 0},
    "access_log_lines_lost": 0, "errors": [],
}  # fmt: skip


def status(**changes):
    return STATUS | changes


def test_the_state_of_everything(visit, double):
    double.status = status()
    seen = visit("/status")
    seen.page.wait_for_selector("#panels .panel")
    text = seen.page.locator("#panels").inner_text()
    for shown in (
        "smollm2-135m", "signed", "production", "locked", "8,192 tokens", "4,321", "1 d 2 h",
        "3.0 GiB", "136.4 MiB", "12.3 s", "ab" * 32, "none since the start",
    ):  # fmt: skip
        assert shown in text
    assert seen.page.locator("#panels dd.passed").count() == 5
    seen.page.click(".languages >> text=中文")
    text = seen.page.locator("#panels").inner_text()
    assert "8,192 个词元" in text
    assert "1 天 2 小时" in text
    seen.page.click("#raw > summary")
    assert '"issuer": "appliance-7"' in seen.page.locator("#raw-text").inner_text()


def test_rates_follow_from_counters(visit, double):
    double.status = status()
    seen = visit("/status")
    seen.page.wait_for_selector("#panels .panel")
    assert "tokens/s" not in seen.page.locator("#panels").inner_text()
    grown = STATUS["requests"] | {"generated_tokens": 2100, "prompt_tokens": 1000}
    double.status = status(time_ms=STATUS["time_ms"] + 4000, requests=grown)
    seen.page.wait_for_selector("text=25.0 tokens/s")
    assert "0.0 tokens/s" in seen.page.locator("#panels").inner_text()


def test_what_is_wrong_is_seen(visit, double):
    double.status = status(
        state="failed", ready=False, mode="dev",
        reasons=[{"code": "log", "message": "the log cannot be written: <b>failed</b>"}],
        errors=[{"time_ms": 1_764_460_890_000, "kind": "OSError", "where": "appliance/x.py:12"}],
        log=STATUS["log"] | {"state": "failed"},
    )  # fmt: skip
    double.ready = (503, {"status": "failed", "reasons": double.status["reasons"]})
    seen = visit("/status")
    seen.page.wait_for_selector(".panel.failed")
    assert "<b>failed</b>" in seen.page.locator(".panel.failed").inner_text()
    assert "appliance/x.py:12" in seen.page.locator("#panels").inner_text()
    assert seen.page.locator("dd.failed").inner_text().strip() == "failed"
    assert seen.page.locator("dd.open").inner_text().strip() == "dev"
    seen.page.wait_for_selector("#phase:has-text('out of order')")


def test_a_service_that_is_loading_has_little_to_say(visit, double):
    reasons = [{"code": "weights", "message": "reading the weights: 40 %"}]
    double.status = status(
        state="loading", ready=False, reasons=reasons, log=None, start=None,
        model={"name": "smollm2-135m", "file": "m.vqf"},
    )  # fmt: skip
    seen = visit("/status")
    seen.page.wait_for_selector(".panel.open")
    assert "40 %" in seen.page.locator(".panel.open").inner_text()
    assert "undefined" not in seen.page.locator("main").inner_text()


def test_old_figures_are_marked(visit, double):
    double.status = status()
    seen = visit("/status")
    seen.page.wait_for_selector("#panels .panel")
    seen.page.route("**/v1/status", lambda route: route.abort())
    seen.page.wait_for_selector("#panels.stale")
    assert "Not current" in seen.page.locator("#as-of").inner_text()
    assert "was not reached" in seen.page.locator("#fault").inner_text()
    seen.page.unroute("**/v1/status")
    seen.page.wait_for_selector("#panels:not(.stale)")


def test_a_key_is_needed(visit, double):
    double.status = status()
    seen = visit("/status", key=None)
    assert seen.page.locator("#key-form").is_visible()
    assert seen.page.locator("#panels .panel").count() == 0
    seen.page.fill("#key", "wh-abcdefgh-wrong")
    seen.page.press("#key", "Enter")
    seen.page.wait_for_selector("text=The appliance refused this key")


@pytest.mark.parametrize("path", ["/", "/status"])
def test_a_small_screen(visit, double, path):
    double.status = status()
    seen = visit(path, viewport={"width": 360, "height": 700}, locale="zh-CN")
    seen.page.wait_for_selector("#phase.passed")
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 360


@needs_node
def test_values_of_any_kind_are_shown():
    rows = [
        ("bytes", 1023, "1023 B"), ("bytes", 5 << 40, "5.0 TiB"), ("duration", 61, "1 min 1 s"),
        ("duration", 3661, "1 h 1 min"), ("flag", False, "no"), ("count", None, "none"),
        ("count", "many", "many"), ("tokens", 1, "1 tokens"), ("text", {"a": 1}, '{"a":1}'),
    ]  # fmt: skip
    answers = run_cases(
        *({"op": "row", "status": {"a": {"b": value}}, "path": "a.b", "kind": kind}
          for kind, value, _ in rows)
    )  # fmt: skip
    assert [answer["value"][0] for answer in answers] == [text for _, _, text in rows]
    assert run_cases({"op": "row", "status": {}, "path": "constructor.name", "kind": "text"}) == [
        {"value": None}
    ]
