"""What README.md tells a reader to type, open or expect is there."""

from __future__ import annotations

import importlib
import re
import shlex

import click
import pytest

from appliance.cli.main import COMMANDS
from tests.structure.source import CHECKOUT

README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (CHECKOUT / "Makefile").read_text(encoding="utf-8")

MAKE = re.compile(r"(?:`|^\s+|\$ )make ([a-z0-9-]+)", re.MULTILINE)
COMMAND_LINE = re.compile(r"(?:`|^|\$ )windhover ([a-z][^`\n]*)", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#]+)\)")
PATH = re.compile(r"`((?:appliance|crypto|engine|tests)/[\w/.]+)`")

command_lines = sorted(set(COMMAND_LINE.findall(README)))


def make_targets() -> set[str]:
    """Return the targets that a person may name: those declared phony."""
    (declared,) = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    return set(declared.split())


def options_of(words: list[str]) -> set[str]:
    """Return every option that the command named by the first words has."""
    command = importlib.import_module(COMMANDS[words[0]].module).command
    if isinstance(command, click.Group):
        command = command.get_command(click.Context(command), words[1])
    assert isinstance(command, click.Command)
    options = {option for parameter in command.params for option in parameter.opts}
    return options | {"--help"}


def test_make_targets_exist_and_are_explained() -> None:
    mentioned = set(MAKE.findall(README))
    assert {"serve", "test", "demo"} <= mentioned
    assert mentioned | {"help"} == make_targets()


def test_every_phony_target_has_a_rule() -> None:
    rules = set(re.findall(r"^([a-z][a-z0-9-]*):", MAKEFILE, re.MULTILINE))
    assert make_targets() == rules


@pytest.mark.parametrize("line", command_lines)
def test_command_lines_are_real(line: str) -> None:
    words = shlex.split(line)
    assert words[0] in COMMANDS
    assert {word for word in words if word.startswith("--")} <= options_of(words)


def test_every_command_has_a_row() -> None:
    rows = {row.split()[0] for row in re.findall(r"^\| `windhover ([^`]*)`", README, re.MULTILINE)}
    assert rows == set(COMMANDS)


def test_every_path_exists() -> None:
    named = set(LINK.findall(README)) | set(PATH.findall(README))
    assert len(named) > 5
    assert [path for path in sorted(named) if not (CHECKOUT / path).exists()] == []
