"""The command line, in a checkout and as the single file, without a third-party package."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from crypto.sm2 import signature_to_der
from tests.verifier.bundle_case import MODEL, NONCE, NOW, STARTED, Made, signer
from verifier.build_pyz import build
from verifier.build_pyz import main as build_main

CHECKOUT = Path(__file__).parents[2]
AT = ("--at", str(NOW))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("verifier")


@pytest.fixture(scope="module")
def made(folder):
    made = Made()
    (folder / "a.bundle").write_bytes(made.bundle())
    (folder / "trust.toml").write_text(made.trust)
    (folder / "request").write_bytes(made.texts["request"])
    (folder / "response").write_bytes(made.texts["transcript"])
    (folder / "checkpoint").write_bytes(made.objects()["checkpoint"])
    return made


@pytest.fixture(scope="module")
def pyz(folder):
    target = folder / "verifier.pyz"
    assert build_main([str(target)]) == 0
    return target


def run(*arguments, program=("-m", "verifier"), cwd=CHECKOUT):
    """Run a fresh interpreter and return the finished process."""
    command = [sys.executable, *map(str, program), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


def run_pyz(pyz, *arguments):
    return run(*arguments, program=("-I", "-S", pyz), cwd=pyz.parent)


def test_all_options(folder, made, pyz):
    options = [
        *("a.bundle", "--trust", "trust.toml", *AT, "--need", "A0,A3"),
        *("--request", "request", "--response", "response", "--nonce", NONCE.hex()),
        *("--model", MODEL.hex(), "--signer", signer("attest").key_id.hex()),
        *("--after", "2027-01-15T07:58:59Z", "--before", STARTED + 5000),
    ]
    for head in (f"11:{made.root.hex()}", "checkpoint"):
        result = run_pyz(pyz, *options, "--log-head", head)
        assert (result.returncode, result.stderr) == (0, "")
        assert result.stdout.startswith("PASS: ok\n")
        assert "This can never show" in result.stdout


def test_exit_codes_and_json(folder, made, pyz):
    altered = made.copy()
    altered.parts = {"transcript": b""}
    (folder / "altered").write_bytes(altered.bundle())
    cases = [
        (("a.bundle",), 0, "PASS", "ok"),
        (("altered",), 1, "FAIL", "opens-transcript"),
        (("a.bundle", "--nonce", "00" * 16), 1, "FAIL", "expected-nonce"),
        (("a.bundle", "--log-head", f"12:{'00' * 32}"), 3, "INCOMPLETE", "head-differs"),
        (("a.bundle", "--at", "2026-01-01T00:00:00Z"), 1, "FAIL", "from-the-future"),
        (("missing",), 2, None, "usage"),
        (("a.bundle", "--nonce", "0"), 2, None, "usage"),
        (("a.bundle", "--model", "zz" * 32), 2, None, "usage"),
        (("a.bundle", "--at", "yesterday"), 2, None, "usage"),
        (("a.bundle", "--need", "A4"), 2, None, "usage"),
        (("a.bundle", "--log-head", "0:" + "00" * 32), 2, None, "usage"),
        (("a.bundle", "--log-head", "request"), 2, None, "usage"),
    ]
    for arguments, code, verdict, reason in cases:
        at = () if "--at" in arguments else AT
        result = run_pyz(pyz, *arguments, "--trust", "trust.toml", *at, "--json")
        found = json.loads(result.stdout)
        assert (result.returncode, found["verdict"], found["reason"]) == (code, verdict, reason)
        assert result.stderr == ""
        if verdict:
            assert [step["step"] for step in found["steps"]] == list(range(1, 26))


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("a.bundle",),
        ("a.bundle", "--trust", "missing"),
        ("a.bundle", "--trust", "a.bundle"),
        ("a.bundle", "--trust", "trust.toml", "--jsn"),
        ("a.bundle", "--trust", "trust.toml", "--trust", "trust.toml"),
        ("a.bundle", "a.bundle", "--trust", "trust.toml"),
        ("a.bundle", "--trust", "trust.toml", "--json=no"),
        ("a.bundle", "--trust"),
        ("a.bundle", "--trust", "trust.toml", "--response", "r", "--response-prefix", "r"),
        ("a.bundle", "--trust", "trust.toml", "--request", "\x1b[2J"),
    ],
)
def test_usage(folder, made, pyz, arguments):
    result = run_pyz(pyz, *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert "\x1b" not in result.stderr


def test_help_and_joined_values(folder, made, pyz):
    result = run_pyz(pyz, "--help")
    assert (result.returncode, result.stderr) == (0, "")
    assert "--response-prefix FILE" in result.stdout
    result = run_pyz(pyz, "a.bundle", "--trust=trust.toml", f"--at={NOW}")
    assert (result.returncode, result.stdout.splitlines()[0]) == (0, "PASS: ok")


def test_the_archive_compiles_each_module_once(folder, made, pyz):
    program = (
        "import runpy, sys\n"
        "found = []\n"
        "sys.addaudithook(lambda name, given: name == 'compile' and found.append(given[1]))\n"
        f"sys.argv = ['x', 'a.bundle', '--trust', 'trust.toml', '--at', '{NOW}']\n"
        "try: runpy.run_path('verifier.pyz', run_name='__main__')\n"
        "except SystemExit: print(*found, sep='\\n')\n"
    )
    lines = run("-I", "-S", "-c", program, program=(), cwd=folder).stdout.splitlines()
    modules = [line for line in lines if "pyz/verifier/" in line]
    assert len(modules) > 15
    assert len(modules) == len(set(modules))


def test_the_checkout_runs_as_a_module(folder, made):
    result = run(folder / "a.bundle", "--trust", folder / "trust.toml", *AT)
    assert (result.returncode, result.stdout.splitlines()[0]) == (0, "PASS: ok")


def test_sm3_without_hashlib(folder, made):
    program = (
        "import hashlib, sys\n"
        "new = hashlib.new\n"
        "def without(name, *rest, **more):\n"
        "    if name == 'sm3': raise ValueError(name)\n"
        "    return new(name, *rest, **more)\n"
        "hashlib.new = without\n"
        f"sys.path.insert(0, {str(CHECKOUT)!r})\n"
        "from verifier.__main__ import main\n"
        "sys.exit(main())\n"
    )
    options = (folder / "a.bundle", "--trust", folder / "trust.toml", *AT)
    result = run(*options, program=("-I", "-S", "-c", program))
    assert (result.returncode, result.stdout.splitlines()[0]) == (0, "PASS: ok")
    assert "SM3 computed by python" in result.stdout


def test_a_bundle_beyond_the_limit_is_a_finding(folder, made, pyz):
    with (folder / "long").open("wb") as file:
        file.truncate((32 << 20) + 5)
    result = run_pyz(pyz, "long", "--trust", "trust.toml")
    assert result.stdout.splitlines()[0] == "FAIL: bundle-format"


def test_a_folder(folder, made, pyz):
    inside = folder / "inside"
    inside.mkdir()
    (inside / "a.bundle").write_bytes(made.bundle())
    (inside / "notes").write_text("no bundle")
    result = run_pyz(pyz, "inside", "--trust", "trust.toml", *AT)
    assert (result.returncode, result.stdout.splitlines()[0]) == (0, "PASS: ok")
    (inside / "b\u202e.bundle").write_bytes(b"")
    result = run_pyz(pyz, "inside", "--trust", "trust.toml", *AT)
    assert result.returncode == 1
    assert "b\\u{202e}.bundle: FAIL: bundle-format" in result.stdout
    result = run_pyz(pyz, "inside", "--trust", "trust.toml", *AT, "--json")
    assert len(json.loads(result.stdout)["bundles"]) == 2
    (folder / "empty").mkdir()
    assert run_pyz(pyz, "empty", "--trust", "trust.toml").returncode == 2


def test_the_archive_is_reproducible(tmp_path, pyz):
    old = os.umask(0o077)
    try:
        program = (CHECKOUT / "verifier" / "build_pyz.py", tmp_path / "again.pyz")
        assert run(program=program, cwd=tmp_path).returncode == 0
    finally:
        os.umask(old)
    assert (tmp_path / "again.pyz").read_bytes() == pyz.read_bytes() == build()


def test_the_archive_is_stored_sorted_and_without_dates(pyz):
    with zipfile.ZipFile(pyz) as archive:
        entries = archive.infolist()
    names = [entry.filename for entry in entries]
    assert names == sorted(names)
    assert not [name for name in names if "build" in name]
    assert all(name.endswith(".py") for name in names)
    assert {entry.compress_type for entry in entries} == {zipfile.ZIP_STORED}
    assert {(entry.date_time, entry.external_attr >> 16) for entry in entries} == {
        ((1980, 1, 1, 0, 0, 0), 0o100644)
    }


def test_openssl_checks_its_signature(tmp_path, pyz):
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl command")
    key = signer("software")
    (tmp_path / "key.der").write_bytes(key.public_key.spki_der())
    (tmp_path / "pyz.sig").write_bytes(signature_to_der(key.sign(pyz.read_bytes())))
    command = [
        *(openssl, "pkeyutl", "-verify", "-pubin", "-keyform", "DER", "-rawin", "-digest", "sm3"),
        *("-pkeyopt", "distid:1234567812345678", "-inkey", tmp_path / "key.der"),
        *("-sigfile", tmp_path / "pyz.sig", "-in"),
    ]
    assert subprocess.run([*command, pyz], capture_output=True, check=False).returncode == 0
    (tmp_path / "other").write_bytes(pyz.read_bytes() + b"\n")
    other = subprocess.run([*command, tmp_path / "other"], capture_output=True, check=False)
    assert other.returncode == 1


def test_the_log_id_of_a_head_counts(folder, made, pyz):
    other = made.copy()
    other.checkpoint[-70202] = bytes(32)
    (folder / "other").write_bytes(other.objects()["checkpoint"])
    result = run_pyz(
        pyz, "a.bundle", "--trust", "trust.toml", *AT, "--log-head", "other", "--need", "A0"
    )
    assert result.stdout.splitlines()[0] == "FAIL: expected-head"
