"""Peak memory is that of the measured program, whatever the measuring one takes."""

from __future__ import annotations

import sys

import pytest

from appliance.bench.memory import last_line, peak_of
from engine.errors import ConfigError

PYTHON = [sys.executable, "-I", "-S", "-c"]
MEGABYTE = 1 << 20


def test_what_was_touched_counts_even_when_it_is_given_back() -> None:
    small = peak_of([*PYTHON, "pass"]).max_rss_bytes
    large = peak_of([*PYTHON, "x = b'x' * (150 << 20); del x"]).max_rss_bytes
    assert 140 * MEGABYTE < large - small < 165 * MEGABYTE


def test_the_memory_of_the_caller_does_not_count() -> None:
    ballast = b"x" * (200 << 20)
    assert peak_of([*PYTHON, "pass"]).max_rss_bytes < 60 * MEGABYTE < len(ballast)


def test_processor_time_is_counted() -> None:
    found = peak_of([*PYTHON, "import time\nwhile time.process_time() < 0.2: pass"])
    assert 0.2 <= found.cpu_s < 2.0


def test_variables_are_added() -> None:
    program = "import os, sys; sys.exit(os.environ['A'] != 'b' or not os.environ['PATH'])"
    assert peak_of([*PYTHON, program], environment={"A": "b"}).max_rss_bytes > 0


def test_a_program_that_fails_says_why() -> None:
    with pytest.raises(ConfigError, match="failed with 1: no memory"):
        peak_of([*PYTHON, "import sys; print('lost'); sys.exit('no memory')"])


def test_a_program_that_is_killed_is_seen() -> None:
    with pytest.raises(ConfigError, match="failed with -9: it wrote nothing"):
        peak_of([*PYTHON, "import os; os.kill(os.getpid(), 9)"])


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError):
        peak_of(["windhover-no-such-program"])


@pytest.mark.parametrize(("text", "line"), [("a\n b \n\n", "b"), ("", "it wrote nothing")])
def test_the_last_line_is_the_reason(text: str, line: str) -> None:
    assert last_line(text) == line
