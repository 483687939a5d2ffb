"""JSON lines, safe text, sizes and progress."""

from __future__ import annotations

import io
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.cli.output import Progress, format_bytes, printable, write_json


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


class Clock:
    """A clock that a test sets."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_json_is_one_ascii_line(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"text": "Grüße\n\ud800\x1b[2J", "n": 1}
    write_json(value)
    line = capsys.readouterr().out
    assert line.isascii()
    assert line.count("\n") == 1
    assert json.loads(line) == value


def test_json_refuses_numbers_without_a_form() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json({"rate": math.inf})


@given(st.text())
def test_printable_leaves_nothing_that_steers_a_terminal(text: str) -> None:
    assert printable(text).isprintable()


def test_printable_keeps_what_is_readable() -> None:
    assert printable("Größe 語 \\ ok") == "Größe 語 \\ ok"
    assert printable("\x1b]0;x\x07\u202e\ud800\n") == "\\x1b]0;x\\x07\\u202e\\ud800\\n"


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (9_994, "9.99 kB"),
        (9_996, "10.0 kB"),
        (99_960, "100 kB"),
        (999_600, "1.00 MB"),
        (98_362_432, "98.4 MB"),
        (2_000_000_000_000_000, "2000 TB"),
    ],
)
def test_sizes_have_three_digits(size_bytes: int, text: str) -> None:
    assert format_bytes(size_bytes) == text


def test_progress_is_silent_without_a_terminal() -> None:
    stream = io.StringIO()
    with Progress("converting", stream=stream) as progress:
        progress(1, 1)
    assert stream.getvalue() == ""


def test_progress_is_drawn_ten_times_a_second_and_at_the_end() -> None:
    stream, clock = Terminal(), Clock()
    with Progress("converting", unit=str, stream=stream, clock_s=clock) as progress:
        for done in range(100):
            progress(done, 100)
            clock.now_s += 0.01
        drawn = stream.getvalue().split("\r")[1:]
        progress(100, 100)
    assert 10 <= len(drawn) <= 11
    assert drawn[0] == "converting    0 %  0 of 100"
    cleared = stream.getvalue().split("\r")[len(drawn) + 1 :]
    assert cleared[0].rstrip() == "converting  100 %  100 of 100"
    assert [text.strip() for text in cleared[1:]] == ["", ""]


def test_progress_clears_its_line_when_the_work_fails() -> None:
    def fail() -> None:
        with Progress("a\x1bb", stream=stream) as progress:
            progress(0, 0)
            raise RuntimeError

    stream = Terminal()
    with pytest.raises(RuntimeError):
        fail()
    assert stream.getvalue().endswith(" \r")
    assert "\x1b" not in stream.getvalue()
