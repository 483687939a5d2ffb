"""Settings that every test shares."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

# Compiling a kernel inside an example takes seconds, so no example has a deadline. On a submission
# the examples are the same in every run: a change is judged by what it changed.
settings.register_profile("default", deadline=None, max_examples=50)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A real Chromium: one for all tests, since Playwright runs once in a process."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="a page in a browser needs Playwright for Python"
    )
    if CHROMIUM is None:
        pytest.skip("a page in a browser needs Debian's chromium: none here")
    # the sandbox of Chromium refuses to run as root; the pages here are our own
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield found
        found.close()
