"""A small service for the browser to talk to."""

from __future__ import annotations

import pytest

from tests.appliance.pages.appliance_double import KEY, Double, Script


@pytest.fixture(scope="session")
def _serving():
    double = Double()
    with double.serving() as address:
        yield double, address


@pytest.fixture
def double(_serving):
    """The service, as if it had just started."""
    found = _serving[0]
    found.script, found.status = Script(), {}
    found.ready = (200, {"status": "ready", "ready": True, "reasons": []})
    found.bodies.clear()
    found.nonces.clear()
    found.bundles.clear()
    return found


class Visit:
    """A page of the service, with every request and every message of its console written down."""

    def __init__(self, browser, address, path="/", *, key=KEY, **options):
        options = {"locale": "en-GB", "viewport": {"width": 1100, "height": 900}} | options
        self.context = browser.new_context(**options)
        self.address, self.key = address, key
        self.page = self.context.new_page()
        self.requests, self.messages = [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.goto(address + path + (f"#key={key}" if key else ""))

    def ask(self, question):
        self.page.fill("#prompt", question)
        self.page.press("#prompt", "Enter")

    def turn(self, number=-1):
        return self.page.locator(".turn").nth(number)

    def verdict(self, number=-1):
        """Wait for the verdict on an answer."""
        word = self.turn(number).locator(".evidence > .verdict .latin")
        return word.text_content(timeout=20_000)

    def close(self):
        messages = [text for text in self.messages if "Failed to load resource" not in text]
        assert not messages
        # to nobody else, whatever happened, and never with a key in the address
        local = [url for url in self.requests if not url.startswith(("data:", "blob:"))]
        assert all(url.startswith(self.address + "/") for url in local)
        assert not [url for url in local[1:] if self.key and self.key in url]
        self.context.close()


@pytest.fixture
def visit(browser, double, _serving):
    """Open pages; each is closed and looked at afterwards."""
    opened = []

    def begin(path="/", **options):
        opened.append(Visit(browser, _serving[1], path, **options))
        return opened[-1]

    yield begin
    for one in opened:
        one.close()
