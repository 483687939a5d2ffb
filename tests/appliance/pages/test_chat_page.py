"""The chat page in a real Chromium: asked, answered, verified, tampered with, cut."""

from __future__ import annotations

import json
import threading

import pytest

from tests.appliance.pages.appliance_double import KEY, event
from tests.verifier.bundle_case import trust_text
from verifier.expectations import Expectations
from verifier.verify import verify


def error(code, message):
    return {"error": {"message": message, "type": "server_error", "param": None, "code": code}}


def trust_file(text):
    return {"name": "trust.toml", "mimeType": "application/toml", "buffer": text.encode()}


def compared(turn):
    return turn.locator(".compared .result").all_text_contents()


def test_an_answer_is_verified_as_soon_as_it_is_there(visit, double):
    seen = visit()
    seen.page.wait_for_selector("#model-name:text('tiny')")
    seen.ask("Say hello. 你好 \U0001f600")
    assert seen.verdict() == "PASS"
    turn = seen.turn()
    assert turn.locator(".answer .words").inner_text() == "Hello, world."
    assert compared(turn) == ["the same"] * 3
    text = turn.locator(".evidence").inner_text()
    assert "not that the appliance is genuine" in text
    assert "number 8 of log" in text
    assert double.nonces[0].hex() in text
    assert json.loads(double.bodies[0])["messages"] == [
        {"role": "user", "content": "Say hello. 你好 \U0001f600"}
    ]
    assert len(double.nonces[0]) == 32


def test_the_reader_s_own_trust_file_counts_and_is_kept(visit):
    seen = visit()
    seen.ask("hello")
    assert seen.verdict() == "PASS"
    seen.page.click("#trust > summary")
    seen.page.set_input_files("#trust-file", trust_file(trust_text()))
    seen.page.wait_for_selector("text=Checked with your trust file trust.toml.")
    assert seen.verdict() == "PASS"
    assert "attest" in seen.turn().locator(".evidence dl").inner_text()
    stranger = trust_text(keys={"attest": None})
    seen.page.set_input_files("#trust-file", trust_file(stranger))
    seen.page.wait_for_selector(".evidence > .verdict.incomplete")
    assert seen.turn().locator(".verdict code").text_content() == "unknown-key"
    seen.page.set_input_files("#trust-file", trust_file("version = 2\n"))
    seen.page.wait_for_selector("text=This is no trust file: version, byte 10")
    seen.page.reload()
    seen.page.wait_for_selector("#trust-summary:text('trust.toml')")
    seen.page.click("#trust > summary")
    seen.page.click("#trust-remove")
    seen.page.wait_for_selector("#trust-summary:text('What this appliance says of itself')")


def test_a_flipped_byte_fails(visit):
    seen = visit()
    seen.ask("hello")
    assert seen.verdict() == "PASS"
    seen.page.click("[data-text=flip]")
    tampered = seen.turn().locator(".tampered")
    assert tampered.locator(".latin").text_content(timeout=20_000) == "FAIL"
    assert tampered.locator("code").text_content() == "opens-transcript"
    # the evidence itself is as it was, and whoever used the keyboard is where he was
    assert seen.verdict() == "PASS"
    assert seen.page.evaluate("document.activeElement.dataset.text") == "flip"
    seen.page.click("[data-text=verifyHere]")
    seen.page.wait_for_selector(".tampered", state="detached")
    assert seen.verdict() == "PASS"


def tampered_answer(made):
    made.texts["transcript"] = made.texts["transcript"].replace(b"world", b"words")


def other_nonce(made):
    for claims in (made.admission, made.statement):
        claims |= {-70207: bytes(32), -70224: "request"}


def other_request(made):
    made.texts["request"] += b" "


@pytest.mark.parametrize(
    ("change", "reason", "rows"),
    [
        (tampered_answer, "expected-response", ["the same", "different", "the same"]),
        (other_nonce, "expected-nonce", ["the same", "the same", "different"]),
        (other_request, "expected-request", ["different", "the same", "the same"]),
    ],
)
def test_evidence_of_another_answer_is_seen(visit, double, change, reason, rows):
    double.script.change = change
    seen = visit()
    seen.ask("hello")
    assert seen.verdict() == "FAIL"
    assert reason in seen.turn().locator(".evidence > .verdict").inner_text()
    assert compared(seen.turn()) == rows


def test_the_attestation_is_waited_for_while_the_answer_streams(visit, double):
    double.script.gate = threading.Event()
    seen = visit()
    seen.ask("hello")
    turn = seen.turn()
    turn.locator(".words:has-text('Hello,')").wait_for()
    assert "Waiting for the attestation" in turn.locator(".evidence").inner_text()
    assert "att1" in turn.locator(".evidence").inner_text()
    assert turn.get_attribute("aria-busy") == "true"
    assert seen.page.locator("#stop").is_visible()
    assert not seen.page.locator("#send").is_visible()
    double.script.gate.set()
    assert seen.verdict() == "PASS"
    assert turn.get_attribute("aria-busy") is None
    assert seen.page.locator("#send").is_visible()


@pytest.mark.parametrize("how", ["button", "key"])
def test_a_stopped_answer_can_still_be_verified(visit, double, how):
    double.script.gate = threading.Event()
    seen = visit()
    seen.ask("hello")
    seen.page.wait_for_selector(".answer .words:has-text('Hello,')")
    if how == "key":
        seen.page.keyboard.press("Escape")
    else:
        seen.page.click("#stop")
    seen.page.wait_for_selector("text=stopped by you")
    double.script.gate.set()
    assert seen.verdict() == "PASS"
    assert "Part of the answer that was received" in seen.turn().inner_text()
    assert compared(seen.turn()) == ["the same"] * 3


def test_a_cut_stream_is_no_answer(visit, double):
    double.script.cut_after = 2
    seen = visit()
    seen.ask("hello")
    bad = seen.turn().locator(".bad")
    bad.wait_for()
    assert "cut off" in bad.inner_text()
    assert "Hello," in seen.turn().locator(".answer .words").inner_text()
    assert seen.verdict() == "PASS"  # of what the service stated, and this is a part of it
    assert "Part of the answer" in seen.turn().inner_text()
    double.script.cut_after = None
    seen.ask("again")
    assert seen.verdict() == "PASS"
    sent = json.loads(double.bodies[-1])["messages"]
    assert [message["content"] for message in sent] == ["again"]


def test_an_error_in_the_stream_is_shown(visit, double):
    double.script.error = error("engine_error", "the engine <b>failed</b>")
    seen = visit()
    seen.ask("hello")
    seen.turn().locator(".bad").wait_for()
    assert "the engine <b>failed</b>" in seen.turn().locator(".bad").inner_text()
    assert "engine_error" in seen.turn().locator(".bad").inner_text()


@pytest.mark.parametrize(
    ("raw", "rule"),
    [
        (b"data: {}\n\n", "chunk"),
        (b"data: \xff\n\n", "utf-8"),
        (b"event: x\ndata: 1\n\n", "field"),
        (event("[DONE]") + event("{}"), "after-done"),
    ],
)
def test_a_stream_of_another_form_is_not_read(visit, double, raw, rule):
    double.script.raw = raw
    seen = visit()
    seen.ask("hello")
    seen.turn().locator(".bad").wait_for()
    assert f"({rule})" in seen.turn().locator(".bad").inner_text()


def test_refusals_are_readable(visit, double):
    seen = visit()
    double.script.refusal = (
        503, error("overloaded", "24 requests wait already"), {"Retry-After": "7"},
    )  # fmt: skip
    seen.ask("hello")
    seen.turn().locator(".bad").wait_for()
    for text in ("24 requests wait already", "503 overloaded", "Try again in 7 s."):
        assert text in seen.turn().locator(".bad").inner_text()
    double.script.refusal = (502, "<html>Bad gateway</html>", {})
    seen.ask("hello")
    seen.turn().locator(".bad").wait_for()
    assert "The appliance refused (502)." in seen.turn().locator(".bad").inner_text()
    assert seen.turn().locator(".evidence").count() == 0


def test_an_attestation_that_cannot_be_fetched(visit, double):
    double.script.bundle_status = 404
    seen = visit()
    seen.ask("hello")
    seen.page.wait_for_selector("text=The evidence could not be fetched.")
    assert "no such attestation" in seen.turn().locator(".evidence").inner_text()
    double.script.bundle_status = 200
    seen.page.click("[data-text=verifyHere]")
    assert seen.verdict() == "PASS"


def test_the_key_leaves_the_address_and_stays_in_the_tab(visit):
    seen = visit()
    assert seen.page.url == seen.address + "/"
    assert seen.page.evaluate("sessionStorage.getItem('windhover-key')") == KEY
    assert KEY not in seen.page.evaluate("JSON.stringify(localStorage)")
    assert KEY not in seen.page.content()
    seen.page.reload()
    assert not seen.page.locator("#key-form").is_visible()
    seen.page.click("#key-forget")
    assert seen.page.locator("#key-form").is_visible()
    assert seen.page.evaluate("sessionStorage.length") == 0


def test_a_key_is_typed_and_may_be_refused(visit):
    seen = visit(key=None)
    seen.page.fill("#key", "no key")
    seen.page.press("#key", "Enter")
    assert "does not look like a key" in seen.page.locator("#key-notice").inner_text()
    seen.page.fill("#key", "wh-abcdefgh-wrong")
    seen.page.press("#key", "Enter")
    seen.ask("hello")
    seen.page.wait_for_selector("text=The appliance refused this key: this key is not known")
    assert seen.page.locator("#prompt").input_value() == "hello"
    seen.page.fill("#key", KEY)
    seen.page.press("#key", "Enter")
    seen.page.press("#prompt", "Enter")
    assert seen.verdict() == "PASS"


def test_a_conversation_goes_on(visit, double):
    seen = visit()
    seen.page.click("#settings > summary")
    seen.page.fill("#system", "be brief")
    seen.page.fill("#temperature", "0.7")
    seen.page.fill("#max-tokens", "20")
    seen.page.fill("#seed", "5")
    for question in ("one", "two"):
        seen.ask(question)
        assert seen.verdict() == "PASS"
        seen.page.wait_for_selector("#send:visible")
    body = json.loads(double.bodies[-1])
    assert [message["content"] for message in body["messages"]] == [
        "be brief", "one", "Hello, world.", "two",
    ]  # fmt: skip
    assert (body["temperature"], body["max_tokens"], body["seed"]) == (0.7, 20, 5)
    assert len(set(double.nonces)) == 2
    seen.page.fill("#temperature", "3")
    seen.ask("three")
    assert "0 to 2" in seen.page.locator("#fault").inner_text()
    assert seen.page.locator("#temperature").get_attribute("aria-invalid") == "true"
    assert len(double.bodies) == 2
    seen.page.click("#clear")
    assert seen.page.locator(".turn").count() == 0


def test_hostile_answers_stay_text(visit, double):
    markup = "<img src=x onerror=alert(1)><script>alert(2)</script>&amp; \u202e [x](javascript:1)"
    double.script.pieces = [markup[:9], markup[9:]]
    seen = visit()
    seen.ask(markup)
    assert seen.verdict() == "PASS"
    assert seen.turn().locator(".answer .words").text_content() == markup
    assert seen.turn().locator(".question .words").text_content() == markup
    assert seen.page.locator("main img, main script").count() == 0


def test_a_long_answer_does_not_freeze_the_page(visit, double):
    double.script.pieces = [f"line {number}: " + "word " * 12 + "\n" for number in range(8000)]
    seen = visit()
    seen.page.evaluate(
        """() => {
            window.longest = 0;
            let before = performance.now();
            const beat = () => {
                const now = performance.now();
                window.longest = Math.max(window.longest, now - before);
                before = now;
                window.beats = (window.beats ?? 0) + 1;
                setTimeout(beat, 10);
            };
            beat();
        }"""
    )
    seen.ask("go on")
    seen.turn().locator(".evidence > .verdict").wait_for(timeout=60_000)
    assert seen.verdict() == "PASS"
    said = seen.turn().locator(".answer .words > div")
    assert "\n".join(said.all_text_contents()) == "".join(double.script.pieces)
    assert said.count() > 100
    assert seen.page.evaluate("window.beats") > 20


def test_what_is_saved_passes_elsewhere(visit, double, tmp_path):
    seen = visit()
    seen.ask("hello")
    assert seen.verdict() == "PASS"
    saved = {}
    for name in ("saveBundle", "saveTranscript", "saveRequest", "saveResponse"):
        with seen.page.expect_download() as found:
            seen.page.click(f"[data-text={name}]")
        path = tmp_path / found.value.suggested_filename
        found.value.save_as(path)
        saved[name] = path
    assert [path.name for path in saved.values()] == [
        "att1.bundle", "att1.transcript", "att1.request.json", "att1.response.sse",
    ]  # fmt: skip
    for response in ("saveTranscript", "saveResponse"):
        expected = Expectations(
            request=saved["saveRequest"].read_bytes(),
            response=saved[response].read_bytes(),
            nonce=double.nonces[0],
        )
        report = verify(saved["saveBundle"].read_bytes(), trust_text().encode(), expected)
        assert report.verdict == "PASS"
    seen.page.click("text=Check it elsewhere")
    assert double.nonces[0].hex() in seen.page.locator(".evidence pre").inner_text()


@pytest.mark.parametrize(("locale", "title"), [("zh-CN", "提问，并核验回答"),
                                               ("de-DE", "Ask, and check the answer")])  # fmt: skip
def test_the_language_of_the_browser(visit, locale, title):
    seen = visit(locale=locale)
    assert seen.page.locator("h1").text_content() == title
    seen.ask("hello")
    seen.verdict()
    for button, html, word in (("中文", "zh-CN", "通过"), ("English", "en", "Passed")):
        seen.page.click(f".languages >> text={button}")
        assert seen.page.locator("html").get_attribute("lang") == html
        assert seen.turn().locator(".evidence > .verdict strong").text_content() == word
    seen.page.click(".languages >> text=中文")
    seen.page.reload()
    assert seen.page.locator("h1").text_content() == "提问，并核验回答"


def test_a_service_that_is_not_ready_says_why(visit, double):
    reasons = [{"code": "weights", "message": "reading and verifying the weights: 40 %"}]
    double.ready = (503, {"status": "loading", "ready": False, "reasons": reasons})
    seen = visit()
    seen.page.wait_for_selector("#phase:has-text('starting')")
    assert seen.page.locator("#reason").inner_text() == reasons[0]["message"]
    double.ready = (200, {"status": "ready", "ready": True, "reasons": []})
    seen.page.wait_for_selector("#phase.passed", timeout=10_000)
    assert seen.page.locator("#reason").inner_text() == ""


def test_nothing_is_wider_than_a_small_screen(visit):
    seen = visit(viewport={"width": 360, "height": 700})
    seen.ask("x" * 300)
    seen.verdict()
    for summary in seen.page.locator("summary:visible").all():
        summary.click()
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 360


def test_every_input_has_a_name(visit):
    seen = visit(key=None)
    for summary in seen.page.locator("summary:visible").all():
        summary.click()
    unnamed = seen.page.evaluate(
        """() => [...document.querySelectorAll("input, button, summary, a, textarea")]
            .filter((node) => !(node.labels?.[0]?.textContent.trim() || node.textContent.trim()))
            .map((node) => node.outerHTML)"""
    )
    assert not unnamed


def test_the_policy_forbids_what_the_page_does_not_do(visit):
    seen = visit()
    refused = seen.page.evaluate(
        """async () => {
            const found = [];
            await fetch("http://127.0.0.1:9/").catch(() => found.push("elsewhere"));
            const script = document.createElement("script");
            script.textContent = "window.ran = true";
            document.body.append(script);
            if (window.ran === undefined) found.push("inline");
            return found;
        }"""
    )
    assert refused == ["elsewhere", "inline"]
    assert all("Content Security Policy" in text for text in seen.messages)
    seen.messages.clear()
    seen.requests[:] = [url for url in seen.requests if ":9/" not in url]
