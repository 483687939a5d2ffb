"""Schemas whose parts multiply are compiled or refused within bounds of time and memory."""

from __future__ import annotations

import pytest

from engine.errors import GrammarError
from tests.appliance.service.child import run
from tests.engine.grammar.bombs import BOMBS
from tests.engine.grammar.support import of_schema

MOST_BYTES = 512 << 20


@pytest.mark.slow
@pytest.mark.ci
def test_all_of_them_fit_into_the_time_and_memory_of_one_process() -> None:
    result = run("from tests.engine.grammar.bombs import main; main()")
    assert {name: kept is True for name, kept in result["taken"].items()} == {
        name: is_taken for name, (_, is_taken) in BOMBS.items()
    }
    assert result["peak_bytes"] < MOST_BYTES


@pytest.mark.parametrize(
    "pattern", ["a{99999999999}", "(" * 400 + ")" * 400, "(", "[z-a]", "(?=a)"]
)
def test_what_is_wrong_with_a_pattern_is_told_of_the_pattern(pattern: str) -> None:
    with pytest.raises(GrammarError) as caught:
        of_schema({"type": "string", "pattern": pattern})
    assert caught.value.keyword == "pattern"
    assert len(str(caught.value)) < 300
