"""The whole load test on a tiny model: a real service, rude clients, and every check."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from appliance.cli.main import run
from tests.appliance.cli.test_serve import DEV
from tests.appliance.service.live import living
from tests.appliance.service.site import Site

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "either CONFIG or --url"),
        (["a.toml", "--url", "http://127.0.0.1:1"], "either CONFIG or --url"),
        (["a.toml", "--pid", "1"], "go with --url"),
        (["--url", "http://127.0.0.1:1"], "needs --key-file"),
        (["absent.toml"], "absent.toml"),
    ],
)
def test_usage(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "serve-load", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_service_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = tmp_path / "key"
    key.touch(mode=0o600)
    key.write_text("wh-aaaaaaaa-" + "A" * 43 + "\n")
    words = ["--url", "http://127.0.0.1:9", "--key-file", str(key)]
    assert run(["bench", "serve-load", *words]) == 2
    assert "ConnectionRefusedError" in capsys.readouterr().err


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, tiny_file: Path) -> Site:
    """A site in mode dev."""
    made = Site(tmp_path_factory.mktemp("site"), tiny_file)
    made.configure(DEV)
    return made


@pytest.mark.slow
@pytest.mark.ci
def test_seconds_of_load(site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # How fast it is does not matter here, and seconds of memory tell nothing.
    # With this seed the first two deeds of all clients have every end that is asked for below.
    words = ["--minutes", "0.12", "--clients", "12", "--seed", "21", "--health-ms", "60000"]
    output = tmp_path / "output"
    config = str(site.path("appliance.toml"))
    exit_code = run(["bench", "serve-load", config, *words, "--output", str(output)])
    out, err = capsys.readouterr()
    assert exit_code == 3, out + err
    found = json.loads((output / "serve-load.json").read_text())
    verdicts = {each["name"]: each["verdict"] for each in found["checks"]}
    assert verdicts.pop("memory does not grow") == "not checked"
    assert set(verdicts.values()) == {"passed"}
    assert len(verdicts) == 10
    figures = found["figures"]
    assert figures["references_under_load"] > 0
    assert figures["admitted"] >= figures["answered"] > 5
    assert figures["closed_disconnected"] > 0
    assert figures["attestations_announced"] > figures["answered"]
    assert {"refused (400)", "refused (401)", "refused (413)"} <= {
        end for ends in found["deeds"].values() for end in ends
    }
    assert found["service"]["model"]["context_tokens"] == 2048
    assert "| every attestation is found" in out


@pytest.mark.slow
def test_a_service_that_runs(
    tmp_path: Path, tiny_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = tmp_path / "operator.key"
    key.touch(mode=0o600)
    words = ["--minutes", "0.05", "--clients", "4", "--health-ms", "60000", "--json"]
    with living(tmp_path, tiny_file) as live:
        key.write_text(live.site.key + "\n")
        words += ["--url", live.url, "--key-file", str(key), "--log", str(tmp_path / "log")]
        exit_code = run(["bench", "serve-load", *words])
    out, err = capsys.readouterr()
    assert exit_code == 3, out + err
    checks = json.loads(out.splitlines()[-1])["checks"]
    verdicts = {each["name"]: each["verdict"] for each in checks}
    assert verdicts.pop("memory does not grow") == "not checked"
    assert set(verdicts.values()) == {"passed"}
    assert {"the log is whole", "every admitted request is attested"} <= verdicts.keys()
