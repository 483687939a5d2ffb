"""Every public bug report that is asked of this service has tests, and they are there."""

from __future__ import annotations

import ast
import json
from functools import cache
from pathlib import Path

import pytest

from tests.structure.source import CHECKOUT

ROWS = json.loads(Path(__file__).with_name("rows.json").read_text())["rows"]

NUMBERS = [
    1, 2, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15, 17, 18, 19, 20, 22, 24, 26, 27, 29, 30, 32, 33, 34,
    36, 37, 38,
]  # fmt: skip
"""The rows of the table; the numbers between them are not asked of a service like this one."""


@cache
def read_tests(path):
    """Return the tests of a file by their names."""
    tree = ast.parse((CHECKOUT / path).read_text(encoding="utf-8"))
    found = {each.name: each for each in tree.body if isinstance(each, ast.FunctionDef)}
    return {name: each for name, each in found.items() if name.startswith("test_")}


def test_every_row_is_there_once_and_says_what_must_hold():
    assert [row["row"] for row in ROWS] == NUMBERS
    assert all(set(row) == {"row", "holds", "tests"} for row in ROWS)
    assert all(row["holds"].endswith(".") for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row["row"]))
def test_every_test_of_a_row_exists_and_is_run(row):
    assert row["tests"]
    assert len(set(row["tests"])) == len(row["tests"])
    for named in row["tests"]:
        path, _, name = named.partition("::")
        assert Path(path).name.startswith("test_")
        test = read_tests(path)[name]
        marks = [ast.unparse(mark) for mark in test.decorator_list]
        assert not [mark for mark in marks if "skip" in mark or "xfail" in mark]
        claims = (ast.Assert, ast.With, ast.Call)  # the last for what a helper asserts
        assert any(isinstance(part, claims) for part in ast.walk(test))
