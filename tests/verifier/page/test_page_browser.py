"""verify.html in a real Chromium, from a file, without a network."""

from __future__ import annotations

import pytest

from tests.verifier.bundle_case import DAY, LOG, MODEL, NONCE, NOW, Made, sm3, trust_text
from tests.verifier.page.page_case import PAGE
from tests.verifier.vectors_software import OTHER, keys, manifest


class Opened:
    """The page, with every request and every message of its console written down."""

    def __init__(self, browser, locale):
        self.context = browser.new_context(
            locale=locale, viewport={"width": 1100, "height": 900}, color_scheme="light"
        )
        self.page = self.context.new_page()
        self.requests, self.messages = [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.goto(PAGE.as_uri())

    def choose(self, field, name, data):
        self.page.set_input_files(
            f"#file-{field}",
            {"name": name, "mimeType": "application/octet-stream", "buffer": data},
        )

    def drop(self, *named, on="body"):
        """Drop files on an element as the system's file manager does."""
        transfer = self.page.evaluate_handle(
            """(named) => {
                const transfer = new DataTransfer();
                for (const [name, bytes] of named) {
                    transfer.items.add(new File([new Uint8Array(bytes)], name));
                }
                return transfer;
            }""",
            [[name, list(data)] for name, data in named],
        )
        self.page.dispatch_event(on, "drop", {"dataTransfer": transfer})

    def verdict(self):
        return self.page.locator("#verdict").text_content(timeout=10_000)

    def fill(self, field, value):
        if self.page.locator("#known").get_attribute("open") != "":
            self.page.click("#known > summary")
        self.page.fill(f"#{field}", value)
        self.page.press(f"#{field}", "Tab")

    def close(self):
        assert self.requests == [PAGE.as_uri()]
        assert not self.messages
        self.context.close()


@pytest.fixture
def opened(browser, request):
    found = Opened(browser, getattr(request, "param", "en-GB"))
    yield found
    found.close()


def instant():
    import datetime

    return datetime.datetime.fromtimestamp(NOW // 1000, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def broken():
    made = Made()
    made.parts["transcript"] = b"\x82\x84\x01\x00\x00\x45hullo\x84\x06\x00\x00\x44stop"
    return made


def lacking():
    made = Made()
    made.parts["output_ids"] = None
    return made


VERDICTS = {
    "pass": (Made, "Passed PASS", "通过 PASS", "ok"),
    "fail": (broken, "Failed FAIL", "不通过 FAIL", "opens-transcript"),
    "incomplete": (lacking, "Incomplete INCOMPLETE", "不完整 INCOMPLETE", "no-output-ids"),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_verdicts_and_languages(opened, name):
    make, english, chinese, reason = VERDICTS[name]
    made = make()
    opened.fill("at", instant())
    opened.drop(("answer.bundle", made.bundle()), ("trust.toml", made.trust.encode()))
    assert opened.verdict() == english
    assert opened.page.locator(".verdict code").all_text_contents() == [reason]
    assert english.split()[0] in opened.page.locator("#status").text_content()
    assert opened.page.locator(".steps > li").count() == 25
    results = opened.page.locator(".steps .result").all_text_contents()
    words = {"passed": "holds", "failed": "wrong", "open": "could not be checked"}
    # an answer that does not open its commitment is not read any further
    idle = {9, 17, 20, 22} if name == "fail" else {9, 17, 22}
    assert results == [
        "nothing to check" if step.number in idle else words[step.result]
        for step in made.verify().steps
    ]
    opened.page.click("text=中文")
    assert opened.verdict() == chinese
    assert opened.page.locator("html").get_attribute("lang") == "zh-CN"


@pytest.mark.parametrize("opened", ["zh-CN"], indirect=True)
def test_the_language_of_the_browser(opened):
    assert opened.page.locator("h1").text_content() == "核验回答"
    opened.page.click("text=English")
    assert opened.page.locator("h1").text_content() == "Check an answer"


def test_files_are_chosen_and_removed_by_keyboard(opened):
    made = Made()
    opened.fill("at", instant())
    opened.choose("bundle", "answer.bundle", made.bundle())
    assert opened.page.locator("#waiting").is_visible()
    opened.choose("trust", "trust.toml", made.trust.encode())
    assert opened.verdict() == "Passed PASS"
    summary = opened.page.locator(".steps summary").first
    summary.focus()
    opened.page.keyboard.press("Enter")
    assert "one possible reading" in opened.page.locator(".steps .inside").first.inner_text()
    opened.page.locator("[data-field=trust] .remove").focus()
    opened.page.keyboard.press("Enter")
    assert opened.page.locator("#verdict").count() == 0
    assert opened.page.locator("#waiting").is_visible()


def test_a_manifest_of_the_software(opened):
    made = Made()
    made.trust = keys()
    opened.fill("at", instant())
    opened.drop(("answer.bundle", made.bundle()), ("trust.toml", made.trust.encode()))
    for data, words in (
        (manifest(), "windhover 1.2.3, signed by “software”: the appliance says this release"),
        (
            manifest(OTHER),
            "windhover 1.3.0, signed by “software”: the appliance says another digest",
        ),
        (manifest(name="stranger"), "no key that you trust for software signed the manifest"),
    ):
        opened.choose("software", "software.cose", data)
        says = opened.page.locator(".says")
        says.get_by_text(words).wait_for(timeout=10_000)
        assert opened.verdict() == "Passed PASS"
    assert "windhover" not in says.inner_text()


def test_what_the_auditor_knows(opened):
    made = Made()
    opened.fill("at", instant())
    opened.drop(("answer.bundle", made.bundle()), ("trust.toml", made.trust.encode()))
    opened.fill("nonce", NONCE.hex())
    opened.fill("model", MODEL.hex())
    opened.fill("head", f"11:{made.root.hex()}")
    opened.choose("request", "request.json", b'{"messages":[]}')
    saved = b'{"choices":[{"message":{"content":"hello"},"finish_reason":"stop"}]}'
    opened.choose("response", "response.json", saved)
    opened.page.wait_for_selector("text=request.json")
    assert opened.verdict() == "Passed PASS"
    assert "gave no" not in opened.page.locator(".limits").inner_text()
    opened.fill("nonce", "00" * 16)
    opened.page.wait_for_selector(".verdict.fail")
    assert opened.page.locator(".verdict .why code").text_content() == "expected-nonce"
    opened.fill("nonce", "xyz")
    opened.page.wait_for_selector(".verdict.none")
    assert opened.page.locator("#nonce").get_attribute("aria-invalid") == "true"
    opened.fill("nonce", "")
    opened.fill("before", "1990-01-01T00:00:00Z")
    opened.page.wait_for_selector("text=expected-window")
    opened.fill("before", "")
    opened.page.wait_for_selector(".verdict.pass")
    opened.choose("response", "stream.txt", b'data: {"choices":[{"delta":{"content":"hel"}}]}\n\n')
    opened.page.wait_for_selector("text=expected-response")
    opened.page.check("#prefix")
    opened.page.wait_for_selector(".verdict.pass")


def test_only_what_is_needed_counts(opened):
    made = Made()
    made.parts["releases"] = None
    opened.fill("at", instant())
    opened.drop(("answer.bundle", made.bundle()), ("trust.toml", made.trust.encode()))
    assert opened.verdict() == "Incomplete INCOMPLETE"
    opened.page.uncheck("#need-A3")
    opened.page.wait_for_selector(".verdict.pass")
    assert "Not asked for: A3" in opened.page.locator(".limits").inner_text()


def test_everything_that_is_wrong_is_named(opened):
    made = broken()
    made.parts["releases"] = None
    made.flip = {"statement"}
    opened.fill("at", instant())
    opened.drop(("answer.bundle", made.bundle()), ("trust.toml", made.trust.encode()))
    assert opened.verdict() == "Failed FAIL"
    reasons = opened.page.locator(".verdict code").all_text_contents()
    assert reasons == ["statement-signature", "opens-transcript", "no-release"]
    assert "anybody may have written this" in opened.page.locator(".panel .warning").inner_text()
    assert "Said in its name" in opened.page.locator(".says").inner_text()


def test_a_trust_file_that_is_none_gives_no_verdict(opened):
    opened.drop(("answer.bundle", Made().bundle()), ("trust.toml", b"version = 2\n"))
    assert opened.verdict() == "No result"
    assert "version, byte 10" in opened.page.locator(".verdict").inner_text()


def test_hostile_texts_stay_texts(opened):
    made = Made()
    markup = b'/v1/completions\0{"prompt":"<img src=x onerror=alert(1)> \xe2\x80\xae \xe4\xb8\xad"}'
    made.texts["request"] = markup
    opened.fill("at", instant())
    name = '<script>alert("x")</script>\u202e.bundle'
    opened.drop((name, made.bundle()), ("trust.toml", made.trust.encode()))
    assert opened.verdict() == "Passed PASS"
    shown = opened.page.locator("pre").first
    assert "\\u{0}{" in shown.text_content()
    assert "<img src=x onerror=alert(1)> \\u{202e} \\u{4e2d}" in shown.text_content()
    assert opened.page.locator("main img").count() == 0
    assert "\\u{202e}" in opened.page.locator("[data-field=bundle] .state").text_content()
    opened.page.check("#letters")
    assert "\\u{202e} 中" in opened.page.locator("pre").first.text_content()


def test_a_file_that_is_too_long_is_not_read(opened):
    opened.drop(("trust.toml", bytes(65_537)))
    opened.page.wait_for_selector("text=was not read")
    opened.drop(("what.bin", b"x"), ("else.bin", b"y"))
    opened.page.wait_for_selector("text=cannot be told")
    opened.drop(("one.bundle", b"1"), ("two.bundle", b"2"))
    opened.page.wait_for_selector("text=two.bundle was left aside")
    opened.page.wait_for_selector("text=one.bundle · 1 bytes")
    opened.drop(("what.bin", b"x"), on="[data-field=trust] label")
    opened.page.wait_for_selector("[data-field=trust].full")


def test_the_digest_of_the_page(opened):
    data = PAGE.read_bytes()
    opened.page.click("#genuine > summary")
    opened.choose("page", "verify.html", data)
    opened.page.wait_for_selector("[data-field=page].full")
    assert opened.page.locator("#page-digest").text_content() == sm3(data).hex()
    opened.page.fill("#page-expected", sm3(data).hex())
    assert opened.page.locator("#page-said").text_content() == "The digests are equal."
    opened.page.fill("#page-expected", sm3(b"other").hex())
    assert "do not use this page" in opened.page.locator("#page-said").text_content()


def test_the_policy_forbids_a_connection(browser):
    """What the page does not try, its policy would refuse."""
    opened = Opened(browser, "en-GB")
    refused = opened.page.evaluate(
        """async () => {
            const found = [];
            await fetch("http://127.0.0.1:9/").catch(() => found.push("fetch"));
            try { document.body.innerHTML = "x"; } catch { found.push("markup"); }
            const image = new Image();
            await new Promise((done) => {
                image.onload = done;
                image.onerror = () => { found.push("image"); done(); };
                image.src = "data:image/gif;base64,R0lGODlhAQABAAAAACw=";
            });
            return found;
        }"""
    )
    assert refused == ["fetch", "markup", "image"]
    assert opened.requests[0] == PAGE.as_uri()
    opened.context.close()


def test_a_page_that_was_served_says_so_first(browser):
    context = browser.new_context()
    page = context.new_page()
    address = "http://appliance.test/verify.html"
    page.route(
        "**/*", lambda route: route.fulfill(body=PAGE.read_bytes(), content_type="text/html")
    )
    page.goto(address)
    assert page.locator("body > *").first.inner_text().startswith("You loaded this page from a")
    page.goto(PAGE.as_uri())
    assert not page.locator("#served").is_visible()
    context.close()


def test_every_input_has_a_name(opened):
    """A screen reader reads a name for whatever takes the focus."""
    opened.page.click("#known > summary")
    opened.page.click("#genuine > summary")
    unnamed = opened.page.evaluate(
        """() => [...document.querySelectorAll("input, button, summary, a, fieldset")]
            .filter((node) => !(node.labels?.[0]?.textContent.trim() || node.textContent.trim()))
            .map((node) => node.outerHTML)"""
    )
    assert not unnamed


def test_dates_and_names_of_the_trust_file(opened):
    """A trust file with everything in it: the witness is named, the expired key is not taken."""
    made = Made()
    made.cosignatures = ["witness"]
    made.trust = trust_text(
        keys={"attest": ("attest", f'not_after = "{instant()}"')}, logs={"main": LOG}
    )
    opened.fill("at", str(NOW - 1))
    opened.drop(("answer.bundle", made.bundle()), ("trust.toml", made.trust.encode()))
    assert opened.verdict() == "Passed PASS"
    assert "witness (" in opened.page.locator(".panel dl").first.inner_text()
    opened.fill("at", str(NOW + DAY))
    opened.page.wait_for_selector("text=key-expired")
