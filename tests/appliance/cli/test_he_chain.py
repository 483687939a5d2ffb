"""`windhover he-chain` from calibration to a verified report, on the mock."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from appliance.cli import he_chain
from appliance.cli.main import run as run_cli
from tests.he_chain.models import write_model

PROGRAM = "from appliance.cli.main import main; main()"


def words(name, folder, *more):
    """Return a subcommand with the model and the folders that it takes."""
    places = {
        "holder": ["--holder", str(folder / "H")],
        "evaluator": ["--evaluator", str(folder / "E")],
        "run": ["--run", str(folder / "R")],
    }
    takes = {
        "keys": ("holder", "evaluator"),
        "run": ("holder", "evaluator", "run"),
        "resume": ("evaluator", "run"),
        "lay": ("evaluator", "run"),
        "fin": ("evaluator", "run"),
        "report": ("holder", "run"),
    }[name]
    found = [word for place in takes for word in places[place]]
    return ["he-chain", name, str(folder / "model.vqf"), *found, *map(str, more)]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Return a folder with a model, ranges, keys of both sides, and a key that signs."""
    folder = tmp_path_factory.mktemp("he-chain")
    write_model(folder, num_layers=2).rename(folder / "model.vqf")
    calibration = folder / "ranges.cbor"
    assert (
        run_cli(["he-chain", "calibrate", str(folder / "model.vqf"), "--out", str(calibration)])
        == 0
    )
    more = ("--calibration", calibration, "--backend", "mock", "--ring", 1024)
    assert run_cli(words("keys", folder, *more)) == 0
    assert run_cli(["keygen", str(folder / "sign.pem"), "--role", "attest", "--no-passphrase"]) == 0
    return folder


@pytest.fixture(scope="module")
def finished(prepared):
    """Return the folder with a run that two processes finished, and its report."""
    more = ("--ids", "5,9,33", "--tokens", 1)
    assert run_cli(words("run", prepared, *more)) == 0
    key = ("--key", prepared / "sign.pem", "--out", prepared / "report", "--exact-only")
    assert run_cli(words("report", prepared, *key)) == 0
    return prepared


@pytest.fixture
def folder(prepared, tmp_path):
    """Return a copy in which nothing ran."""
    for name in ("H", "E"):
        shutil.copytree(prepared / name, tmp_path / name)
    shutil.copy(prepared / "model.vqf", tmp_path)
    shutil.rmtree(tmp_path / "R", ignore_errors=True)
    (tmp_path / "H" / "session.cbor").unlink(missing_ok=True)
    return tmp_path


def start_holder(folder, ids, *more):
    """Start a key holder with a new prompt, and wait until it listens."""
    places = ["--holder", folder / "H", "--socket", folder / "s", "--weights", folder / "model.vqf"]
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            PROGRAM,
            "he-chain",
            "refresh",
            *places,
            "--ids",
            ids,
            *more,
            "--json",
        ],
        stdout=subprocess.PIPE,
    )
    assert json.loads(process.stdout.readline()) == {"ready": True}
    return process


def verify(folder, *more):
    report = [str(folder / "report"), "--run", str(folder / "R")]
    return run_cli(["he-chain", "verify", *report, *map(str, more)])


def everything(folder):
    model = ("--weights", folder / "model.vqf", "--holder", folder / "H")
    return ("--public-key", folder / "sign.pub.pem", *model)


def test_a_run_is_measured_signed_and_verified(finished, capsys):
    names = {path.name for path in (finished / "report").iterdir()}
    assert {"report.json", "report.cose", "report.md", "levels.svg", "bits.svg"} <= names
    assert verify(finished, *everything(finished), "--json") == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (found["outcome"], found["verdict"]) == ("verified", "PASS")
    assert "precision" in {check["name"] for check in found["checks"]}


def test_without_the_holder_figures_are_not_checked(finished, capsys):
    assert verify(finished, "--public-key", finished / "sign.pub.pem") == 3
    assert "the figures were NOT checked" in capsys.readouterr().out


def test_an_edited_figure_does_not_verify(finished, tmp_path):
    shutil.copytree(finished / "R", tmp_path / "R")
    shutil.copytree(finished / "report", tmp_path / "report")
    path = tmp_path / "report" / "report.json"
    path.write_bytes(path.read_bytes().replace(b'"bits":2', b'"bits":3', 1))
    assert verify(tmp_path, *everything(finished)) == 1


def test_another_holders_key_does_not_verify(finished, folder):
    shutil.rmtree(folder / "H")
    shutil.rmtree(folder / "E")
    more = ("--calibration", finished / "ranges.cbor", "--backend", "mock", "--ring", 1024)
    assert run_cli(words("keys", folder, *more)) == 0
    shutil.copy(finished / "H" / "session.cbor", folder / "H")
    given = ("--weights", folder / "model.vqf", "--holder", folder / "H")
    assert verify(finished, "--public-key", finished / "sign.pub.pem", *given) == 1


def test_the_evaluators_folder_has_no_secret(finished):
    names = {path.name for path in (finished / "E").rglob("*")}
    assert not names & {"secret.key", "session.cbor", "embedding.f32"}
    secret = (finished / "H" / "secret.key").stat()
    assert secret.st_mode & 0o077 == 0


def test_an_evaluator_with_a_secret_key_is_refused(folder, capsys):
    shutil.copy(folder / "H" / "secret.key", folder / "E")
    assert run_cli(words("resume", folder, "--socket", folder / "none", "--json")) == 2
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["kind"] == "SecurityError"


def test_a_killed_evaluator_is_carried_on_by_the_next_run(folder, capfd):
    keeper = start_holder(folder, "7,8", "--once")
    arguments = words("resume", folder, "--socket", folder / "s", "--json")
    evaluator = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments], stdout=subprocess.PIPE
    )
    first = json.loads(evaluator.stdout.readline())
    os.kill(evaluator.pid, signal.SIGKILL)
    for process in (evaluator, keeper):
        process.wait(60)
        process.stdout.close()
    assert first["hop"] == 0
    assert run_cli(words("run", folder, "--json")) == 0
    assert json.loads(capfd.readouterr().out.splitlines()[-1])["flow"] == "finished"
    assert sorted(path.name for path in (folder / "R" / "records").iterdir()) == [
        f"{number:05}.rec" for number in range(5)
    ]


def test_hops_one_by_one_in_their_order_only(folder, capsys):
    keeper = start_holder(folder, "7")
    try:
        codes = [
            run_cli(words(kind, folder, "--socket", folder / "s"))
            for kind in ("fin", "lay", "lay", "lay", "fin", "fin")
        ]
    finally:
        keeper.terminate()
        keeper.wait(60)
        keeper.stdout.close()
    assert codes == [2, 0, 0, 2, 0, 2]
    assert "fin of token 0 is due, and not lay" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["run", "m.vqf", "--holder", "h", "--evaluator", "e", "--run", "r"], 2),
        (["report", "m.vqf", "--holder", "h", "--run", "nowhere", "--key", "k", "--out", "o"], 2),
        (["verify", "nowhere", "--run", "nowhere"], 2),
        (["verify", "r", "--run", "r", "--holder", "h"], 2),
        (["refresh", "--holder", "h"], 2),
        (["refresh", "--holder", "h", "--socket", "s"], 2),
        (["resume", "m.vqf", "--evaluator", "e", "--run", "r", "--socket", "s"], 2),
        (["boot", "m.vqf", "--evaluator", "e", "--run", "r"], 2),
        (["strict", "m.vqf", "--evaluator", "e", "--run", "r"], 2),
        (["nap"], 2),
    ],
    ids=range(10),
)
def test_what_cannot_be_done_is_told(arguments, code, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run_cli(["he-chain", *arguments]) == code
    assert "internal error" not in capsys.readouterr().err


def test_a_layer_by_polynomials_is_measured_and_verified(folder, prepared, capfd):
    places = ["--evaluator", folder / "ES", "--run", folder / "R"]
    model = folder / "model.vqf"
    given = ["strict", model, "--holder", folder / "H", *places, "--ids", "7", "--gate-bits", 10]
    shutil.rmtree(folder / "H")
    assert run_cli(["he-chain", *map(str, given), "--backend", "mock", "--positions", "2"]) == 0
    (refreshes,) = re.findall(r"refreshes   ([0-9]+) ciphertexts", capfd.readouterr().err)
    assert int(refreshes) <= 8
    key = ("--key", prepared / "sign.pem", "--out", folder / "report", "--exact-only")
    assert run_cli(words("report", folder, *key)) == 0
    shutil.copy(prepared / "sign.pub.pem", folder)
    assert verify(folder, *everything(folder)) == 0
    assert run_cli(["he-chain", *map(str, given)]) == 0  # nothing is left to do


@pytest.mark.parametrize("ids", ["", "7,x", "512", "1,2,3"])
def test_a_layer_by_polynomials_takes_tokens_that_fit(folder, ids, capsys):
    shutil.rmtree(folder / "H")
    places = ["--holder", folder / "H", "--evaluator", folder / "ES", "--run", folder / "R"]
    more = ["--ids", ids, "--backend", "mock", "--positions", 2]
    given = ["strict", folder / "model.vqf", *places, *more]
    assert run_cli(["he-chain", *map(str, given)]) == 2
    assert not (folder / "R").exists()


@pytest.mark.parametrize("more", [(), ("--token", 512)])
def test_bootstraps_begin_with_a_token_of_the_model(folder, more, capsys):
    places = [
        "--holder",
        folder / "HB",
        "--evaluator",
        folder / "EB",
        "--run",
        folder / "RB",
        *more,
    ]
    assert run_cli(["he-chain", "boot", str(folder / "model.vqf"), *map(str, places)]) == 2
    assert "--token takes a token of the model" in capsys.readouterr().err
    assert not (folder / "HB").exists()


def test_a_plan_names_what_it_refuses(prepared, capsys):
    given = [str(prepared / "model.vqf"), "--calibration", str(prepared / "ranges.cbor")]
    assert run_cli(["he-chain", "plan", *given]) == 0
    assert "qkv       1 up at level 0, 3 down at level 1" in capsys.readouterr().out
    refused = {
        "--levels=0": "qkv: a product takes one level",
        "--levels=5": "128 bits of security",
        "--scale-bits=57": "level 0 holds",
        "--memory=1000": "the evaluator may need",
        "--ring=5000": "no power of two",
    }
    for option, words in refused.items():
        more = ["--levels=1"] * (option == "--scale-bits=57")
        assert run_cli(["he-chain", "plan", *given, option, *more]) == (1 if more else 2)
        assert words in capsys.readouterr().err


def test_a_begun_run_takes_no_other_prompt(finished, capsys):
    assert run_cli(words("run", finished, "--ids", "1")) == 2
    assert "is begun" in capsys.readouterr().err


def test_every_subcommand_is_listed_and_helps(capsys):
    assert run_cli(["he-chain", "--help"]) == 0
    out = capsys.readouterr().out
    for name in he_chain.command.list_commands(None):
        assert f"\n  {name} " in out
        assert run_cli(["he-chain", name, "--help"]) == 0
        assert "--json" in capsys.readouterr().out


def test_every_command_line_of_the_readme_is_real():
    text = (Path(he_chain.__file__).parents[2] / "he_chain" / "README.md").read_text("utf-8")
    lines = re.findall(r"^    windhover he-chain (.*)$", text, re.MULTILINE)
    named = set()
    for line in lines:
        name, *words = shlex.split(line)
        command = he_chain.command.get_command(None, name)
        assert command.make_context(name, words).params["as_json"] is False
        named.add(name)
    assert {"run", "report", "verify", "strict", "boot"} <= named


def test_help_imports_no_library():
    program = (
        "import sys\nfrom appliance.cli.main import run\nrun(['he-chain', 'run', '--help'])\n"
        "print(sorted({'tenseal', 'numba', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=Path.cwd()
    )
    assert done.stdout.splitlines()[-1] == "[]"
