"""The pages against the real service, with a tiny model, a real log and a real key."""

from __future__ import annotations

import time

import pytest

from appliance.service.app import create_app
from appliance.service.connect import connect
from appliance.service.routes import pages
from appliance.service.routes.all import BLUEPRINTS
from engine.scheduler import Scheduler
from tests.appliance.pages.conftest import Visit
from tests.appliance.service.shell import CONFIGURATION, Shell


@pytest.fixture
def real(tmp_path, tiny_model, log, attestor):
    """The service as it is after its start; gives its address and its key."""
    folder = tmp_path / "service"
    folder.mkdir()
    small = "max_running = 2\nprefill_tokens = 32"
    shell = Shell(folder, CONFIGURATION.replace("max_running = 2", small))
    shell.app = create_app(shell.service, dict.fromkeys((*BLUEPRINTS, pages.BLUEPRINT)))
    connect(shell.service)
    shell.service.begin(model=tiny_model, log=log, attestor=attestor)
    shell.service.state.ready()
    with shell.serving() as address:
        host, port = address.server.address
        yield f"http://{host}:{port}", shell.key.text
    shell.service.stop()


@pytest.fixture
def visit(browser, real):
    opened = []

    def begin(path="/", **options):
        opened.append(Visit(browser, real[0], path, key=real[1], **options))
        return opened[-1]

    yield begin
    for one in opened:
        one.close()


def test_an_answer_is_asked_for_attested_and_verified(visit):
    seen = visit()
    seen.page.wait_for_selector("#model-name:text('tiny')")
    seen.page.click("#settings > summary")
    seen.page.fill("#max-tokens", "12")
    for question in ("Why is the sky blue?", "And at night?"):
        seen.ask(question)
        # the weights are not signed, so the service runs in mode dev: everything else holds
        assert seen.verdict() == "INCOMPLETE"
        turn = seen.turn()
        assert "mode-dev" in turn.locator(".evidence > .verdict").inner_text()
        assert turn.locator(".compared .result").all_text_contents() == ["the same"] * 3
        assert turn.locator(".answer .words").text_content()
        seen.page.wait_for_selector("#send:visible")
    turn.locator(".steps summary").click()
    assert turn.locator(".steps .failed").count() == 0
    turn.locator("[data-text=flip]").click()
    assert turn.locator(".tampered .latin").text_content(timeout=20_000) == "FAIL"


def test_a_stopped_answer_is_stated_as_disconnected(visit, monkeypatch):
    at_once = Scheduler.step

    def slowly(scheduler):
        # the tiny model is done before a person can stop it
        time.sleep(0.02)
        return at_once(scheduler)

    monkeypatch.setattr(Scheduler, "step", slowly)
    seen = visit()
    seen.page.wait_for_selector("#phase.passed")
    seen.page.click("#settings > summary")
    seen.page.fill("#max-tokens", "400")
    seen.ask("Tell me everything.")
    seen.turn().locator(".answer .words > div").wait_for()
    seen.page.keyboard.press("Escape")
    seen.page.wait_for_selector("text=stopped by you")
    assert seen.verdict() == "INCOMPLETE"
    assert "disconnected" in seen.turn().locator(".evidence dl").inner_text()
    assert "the same" in seen.turn().locator(".compared").inner_text()
    assert "different" not in seen.turn().locator(".compared").inner_text()


def test_a_refusal_is_readable(visit):
    seen = visit()
    seen.page.wait_for_selector("#phase.passed")
    seen.ask("word " * 2000)
    bad = seen.turn().locator(".bad")
    bad.wait_for()
    assert "400 context_length_exceeded" in bad.inner_text()


def test_the_status_page(visit):
    seen = visit("/status")
    seen.page.wait_for_selector("#panels .panel")
    text = seen.page.locator("#panels").inner_text()
    assert "tiny" in text
    assert "unsigned" in text
    assert "undefined" not in text
    assert "NaN" not in text


def test_headers_of_the_pages(real, visit):
    seen = visit()
    answer = seen.page.request.get(real[0] + "/verify.html")
    assert answer.body() == pages.FILES["/verify.html"].content
    headers = answer.headers
    assert headers["content-security-policy"] == pages.FILES["/verify.html"].policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-cache"
    assert seen.page.request.get(real[0] + "/assets/nothing.js").status == 404
    seen.page.goto(real[0] + "/verify.html")
    first = seen.page.locator("body > *").first
    assert first.is_visible()
    assert "An auditor uses his own copy" in first.inner_text()
