"""The command line as a person and a script meet it."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import click
import pytest

from appliance.cli import main as cli_main
from appliance.cli.options import json_option
from crypto.secret import FORBIDDEN_VARIABLES
from engine.errors import WeightsError

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAM = "import sys; from appliance.cli.main import main; sys.argv[0] = 'windhover'; main()"


@pytest.fixture
def raising(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Return a function that makes `windhover check` raise an exception."""

    def install(error: BaseException) -> None:
        @click.command()
        @json_option
        def command(as_json: bool) -> None:
            raise error

        module = SimpleNamespace(command=command)
        monkeypatch.setattr(cli_main.importlib, "import_module", lambda _name: module)

    return install


def test_help_lists_every_command_and_imports_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli_main.run(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"\n  {name} " in out for name in cli_main.COMMANDS)
    assert "3 incomplete" in out


def test_without_a_command_help_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli_main.run([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("Usage: windhover ")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli_main.run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("windhover 0.")


@pytest.mark.parametrize("arguments", [["nonesuch"], ["--nonesuch"]])
def test_wrong_usage_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli_main.run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("windhover: No such ")
    assert captured.err.endswith("(see `windhover --help`)\n")
    assert captured.err.count("\n") == 1


def test_an_error_is_one_line(
    raising: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    raising(WeightsError("extent \x1b[2Jlayers.0\n did not verify"))
    assert cli_main.run(["check"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "windhover: extent \\x1b[2Jlayers.0 did not verify\n"


@pytest.mark.parametrize("wrong", [[], ["--nonesuch"]])
def test_with_json_the_last_line_of_stdout_is_the_error(
    wrong: list[str],
    raising: Callable[[BaseException], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    raising(WeightsError("no"))
    exit_code = cli_main.run(["check", "--json", *wrong])
    captured = capsys.readouterr()
    value = json.loads(captured.out.splitlines()[-1])
    assert value["exit_code"] == exit_code == (2 if wrong else 1)
    assert captured.err == f"windhover: {value['error']}\n"


@pytest.mark.parametrize("debug", [True, False])
def test_a_defect_shows_its_traceback_only_on_request(
    debug: bool, raising: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    raising(TypeError("unexpected"))
    assert cli_main.run([*(["--debug"] if debug else []), "check"]) == 70
    assert ("Traceback" in capsys.readouterr().err) == debug


def test_an_interrupt_is_130(raising: Callable[[BaseException], None]) -> None:
    raising(KeyboardInterrupt())
    assert cli_main.run(["check"]) == 130


def test_a_closed_pipe_ends_quietly() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 141
    process.stderr.close()


@pytest.mark.parametrize("name", cli_main.COMMANDS)
def test_every_command_keeps_the_common_promises(name: str) -> None:
    command = importlib.import_module(cli_main.COMMANDS[name].module).command
    options = {option for parameter in command.params for option in parameter.opts}
    assert command.help
    assert "--json" in options or isinstance(command, click.Group)


@pytest.mark.parametrize("name", FORBIDDEN_VARIABLES)
def test_no_secret_comes_from_the_environment(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(name, "hunter2")
    assert cli_main.run(["check", "a.vqf", "--dev", "--json"]) == 2
    captured = capsys.readouterr()
    assert json.loads(captured.out.splitlines()[-1])["reason"] == "environment"
    assert "hunter2" not in captured.out + captured.err
    assert name not in os.environ
