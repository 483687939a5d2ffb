"""The options of every command that uses weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from appliance.cli.inputs import default_floors
from crypto.floors import FloorStore
from tests.appliance.cli.workshop import line_table

if TYPE_CHECKING:
    from tests.appliance.cli.workshop import Workshop

KEYS = {"vendor": "weights"}


@pytest.fixture
def signed(shop: Workshop) -> Path:
    """Return signed weights that trust.toml accepts."""
    path = shop.weights()
    words = ("--line", "demo", "--release", 2)
    shop.done("sign", path, "--key", shop.path("vendor.pem"), *words)
    shop.trust(line_table("demo", "vendor"), keys=KEYS)
    return path


@pytest.mark.parametrize("option", ["--trust", "--revocations", "--floors"])
def test_dev_goes_with_no_policy(shop: Workshop, signed: Path, option: str) -> None:
    result = shop("check", signed, "--dev", option, shop.path("trust.toml"))
    assert (result.exit_code, result.value["kind"]) == (2, "UsageError")


def test_dev_is_printed(shop: Workshop, signed: Path) -> None:
    result = shop.done("check", signed, "--dev")
    assert "--dev" in result.err
    assert result.value["verdict"] == {"mode": "dev"}


def test_revocations_need_a_trust_file(shop: Workshop, signed: Path) -> None:
    result = shop("check", signed, "--revocations", shop.path("trust.toml"))
    assert (result.exit_code, result.value["kind"]) == (2, "UsageError")


def test_without_a_trust_file_the_line_says_what_to_do(shop: Workshop, signed: Path) -> None:
    result = shop("check", signed)
    assert "--trust" in result.err
    assert "--dev" in result.err


def test_standard_input_holds_one_secret(shop: Workshop, signed: Path) -> None:
    words = ("--passphrase-file", "-", "--key-passphrase-file", "-")
    result = shop("check", signed, *words)
    assert (result.exit_code, result.value["kind"]) == (2, "UsageError")


def test_a_check_leaves_no_floors(shop: Workshop, signed: Path, state_home: Path) -> None:
    shop.done("check", signed, "--trust", shop.path("trust.toml"))
    assert list(state_home.iterdir()) == []


def test_floors_that_an_option_names(shop: Workshop, signed: Path) -> None:
    path = shop.path("floors")
    FloorStore(path, create=True).raise_to("demo", 3)
    words = ("--trust", shop.path("trust.toml"), "--floors", path)
    assert shop("check", signed, *words).reason == "release-too-old"


def test_damaged_floors_are_no_fresh_start(shop: Workshop, signed: Path) -> None:
    path = shop.path("floors")
    FloorStore(path, create=True).raise_to("demo", 1)
    path.write_bytes(path.read_bytes()[:-1])
    words = ("--trust", shop.path("trust.toml"), "--floors", path)
    result = shop("check", signed, *words)
    assert (result.exit_code, result.value["kind"]) == (1, "FormatError")
    assert str(path) in result.err


def test_a_malformed_list_is_named(shop: Workshop, signed: Path) -> None:
    path = shop.path("list")
    path.write_bytes(b"\x00")
    words = ("--trust", shop.path("trust.toml"), "--revocations", path)
    result = shop("check", signed, *words)
    assert (result.exit_code, result.value["kind"]) == (1, "FormatError")
    assert str(path) in result.err


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"STATE_DIRECTORY": "/var/lib/a:/var/lib/b"}, "/var/lib/a/floors"),
        ({"STATE_DIRECTORY": "", "XDG_STATE_HOME": "/s"}, "/s/windhover/floors"),
        ({"XDG_STATE_HOME": "s", "HOME": "/h"}, "/h/.local/state/windhover/floors"),
        ({"XDG_STATE_HOME": "", "HOME": "/h"}, "/h/.local/state/windhover/floors"),
    ],
)
def test_where_floors_are(
    environment: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert default_floors() == Path(expected)


@pytest.mark.parametrize("command", ["check", "generate"])
def test_a_sealed_file_is_named(shop: Workshop, signed: Path, command: str) -> None:
    sealed = shop.path("sealed.vqf")
    shop.done("seal", signed, sealed, "--to", shop.public("appliance"))
    words = [command, sealed] + ["--prompt", "x"] * (command == "generate")
    result = shop(*words, "--trust", shop.path("trust.toml"))
    assert (result.exit_code, result.reason) == (2, "missing")
    assert str(sealed) in result.err


@pytest.mark.parametrize("command", ["check", "generate"])
def test_wrong_and_missing_files(shop: Workshop, signed: Path, command: str) -> None:
    words = [command, signed] + ["--prompt", "x"] * (command == "generate")
    trust = ("--trust", shop.path("trust.toml"))
    none = shop.path("nonesuch")
    for more in (("--trust", none), (*trust, "--revocations", none), (*trust, "--key", none)):
        result = shop(*words, *more)
        assert result.exit_code == 2
        assert str(none) in result.err
        assert result.err.count("\n") == 1
