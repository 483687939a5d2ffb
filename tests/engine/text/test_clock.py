from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import TemplateError
from engine.text.clock import format_time

DIRECTIVES = "Y y m -m B b d -d e j A a H I -I p M S F T Z z %".split()  # noqa: SIM905
ALL = "|".join(f"%{directive}" for directive in DIRECTIVES)


@given(st.integers(0, 253_402_300_799))
def test_times_are_written_as_the_c_locale_writes_them(unix_s: int) -> None:
    time = datetime.fromtimestamp(unix_s, UTC)
    assert format_time(unix_s, ALL) == time.strftime(ALL)


def test_text_around_directives_stays() -> None:
    assert format_time(1_700_000_000, "on %d %B %Y, 100%%!") == "on 14 November 2023, 100%!"


@pytest.mark.parametrize("pattern", ["%", "%Q", "%c", "%x", "%s", "%-Y", "%é", "a" * 201])
def test_what_depends_on_more_than_the_time_is_refused(pattern: str) -> None:
    with pytest.raises(TemplateError):
        format_time(0, pattern)


@pytest.mark.parametrize("unix_s", [-1, 253_402_300_800])
def test_times_out_of_range_are_refused(unix_s: int) -> None:
    with pytest.raises(TemplateError):
        format_time(unix_s, "%Y")
