from __future__ import annotations

import copy
import getpass
import os
import pickle  # noqa: TID251  # to see that a secret is not pickled
import pty
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import crypto.secret as module
from crypto.errors import KeyFileError
from crypto.secret import (
    FORBIDDEN_VARIABLES,
    MAX_SECRET_BYTES,
    Secret,
    read_secret,
    refuse_environment,
)

ROOT = Path(__file__).parents[2]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "passphrase"
    path.touch(mode=0o600)
    return path


@pytest.fixture
def standard_input(monkeypatch):
    """Return a function that makes bytes the standard input."""
    descriptors = []

    def give(data):
        reading, writing = os.pipe()
        os.write(writing, data)
        os.close(writing)
        descriptors.append(reading)
        monkeypatch.setattr(module, "_STDIN", reading)

    yield give
    for descriptor in descriptors:
        os.close(descriptor)


@pytest.fixture
def credentials(tmp_path, monkeypatch):
    """Return the directory of a service's credentials."""
    folder = tmp_path / "credentials"
    folder.mkdir(mode=0o500)
    folder.chmod(0o700)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(folder))
    return folder


def reason(source, **options):
    with pytest.raises(KeyFileError) as caught:
        read_secret(str(source), **options)
    return caught.value.reason


def read(source):
    return bytes(read_secret(str(source)).value)


ENDINGS = [
    (b"correct horse", b"correct horse"),
    (b"correct horse\n", b"correct horse"),
    (b"correct horse\r\n", b"correct horse"),
    (b"correct horse\n\n", b"correct horse\n"),
    (b"correct horse\r", b"correct horse\r"),
    (b" spaces stay \t", b" spaces stay \t"),
    (b"two\nlines\n", b"two\nlines"),
    (b"\x00\xff\xfe", b"\x00\xff\xfe"),
    (b"x" * MAX_SECRET_BYTES + b"\r\n", b"x" * MAX_SECRET_BYTES),
]
WRONG_SIZES = [b"", b"\n", b"\r\n", b"x" * (MAX_SECRET_BYTES + 1), b"x" * 5000]


@pytest.mark.parametrize(("content", "secret"), ENDINGS)
def test_sources_give_the_same_bytes(file, standard_input, credentials, content, secret):
    file.write_bytes(content)
    assert read(file) == secret
    standard_input(content)
    assert read("-") == secret
    (credentials / "model.key").write_bytes(content)
    (credentials / "model.key").chmod(0o440)
    assert read("credential:model.key") == secret


@pytest.mark.parametrize("content", WRONG_SIZES)
def test_wrong_sizes(file, standard_input, credentials, content):
    file.write_bytes(content)
    assert reason(file) == "size"
    standard_input(content)
    assert reason("-") == "size"
    (credentials / "key").write_bytes(content)
    (credentials / "key").chmod(0o400)
    assert reason("credential:key") == "size"


def test_a_file_that_others_can_read(file):
    file.write_bytes(b"secret")
    file.chmod(0o640)
    assert reason(file) == "mode"


@pytest.mark.parametrize("name", ["", ".", "..", "/", "a/b", "../key", "a\0b", "/key"])
def test_names_that_are_no_credential(credentials, name):
    assert reason(f"credential:{name}") == "credential"


@pytest.mark.parametrize("directory", [None, "", "relative", "/nothing/here"])
def test_without_a_directory_of_credentials(monkeypatch, directory):
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    if directory is not None:
        monkeypatch.setenv("CREDENTIALS_DIRECTORY", directory)
    assert reason("credential:key") == "credential"


def test_credentials_are_checked_like_files(credentials):
    assert reason("credential:nothing") == "missing"
    key = credentials / "key"
    key.write_bytes(b"secret")
    key.chmod(0o444)
    assert reason("credential:key") == "mode"
    key.chmod(0o400)
    (credentials / "link").symlink_to(key)
    assert reason("credential:link") == "symlink"


def test_a_terminal_is_asked(monkeypatch):
    asked = []
    monkeypatch.setattr(os, "isatty", lambda descriptor: True)
    monkeypatch.setattr(getpass, "getpass", lambda prompt: asked.append(prompt) or "p\u00e4ss")
    secret = read_secret("-", prompt="Passphrase of the seal: ")
    assert bytes(secret.value) == "p\u00e4ss".encode()
    read_secret("-", confirm=True)
    assert asked == ["Passphrase of the seal: ", "Passphrase: ", "Once more: "]


def test_a_terminal_that_answers_differently(monkeypatch):
    answers = iter(["one", "two"])
    monkeypatch.setattr(os, "isatty", lambda descriptor: True)
    monkeypatch.setattr(getpass, "getpass", lambda prompt: next(answers))
    assert reason("-", confirm=True) == "mismatch"


def shown(prompt):
    warnings.warn("the line will be shown", getpass.GetPassWarning, stacklevel=2)
    return "secret"


def ended(prompt):
    raise EOFError


@pytest.mark.parametrize("answer", [shown, ended])
def test_a_terminal_that_would_show_the_line_is_not_asked(monkeypatch, answer):
    monkeypatch.setattr(os, "isatty", lambda descriptor: True)
    monkeypatch.setattr(getpass, "getpass", answer)
    assert reason("-") == "terminal"


def test_what_is_typed_is_not_shown():
    program = """
from crypto.secret import read_secret
print(len(read_secret("-").value), flush=True)
"""
    keyboard, terminal = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=terminal,
        start_new_session=True,
        cwd=ROOT,
    ) as process:
        shown_by_terminal = os.read(keyboard, 100)  # the prompt: the echo is off by now
        os.write(keyboard, b"correct horse\n")
        output = process.communicate(timeout=60)[0]
    os.close(terminal)
    shown_by_terminal += os.read(keyboard, 1000)
    os.close(keyboard)
    assert output == b"13\n"
    assert b"Passphrase: " in shown_by_terminal
    assert b"horse" not in shown_by_terminal


@pytest.mark.parametrize("name", FORBIDDEN_VARIABLES)
@pytest.mark.parametrize("value", ["hunter2", ""])
def test_secrets_in_the_environment_are_removed_and_refused(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(KeyFileError) as caught:
        refuse_environment()
    assert caught.value.reason == "environment"
    assert name in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert name not in os.environ
    child = subprocess.run(["/usr/bin/env"], capture_output=True, text=True, check=True).stdout
    assert not any(line.startswith(f"{name}=") for line in child.splitlines())
    refuse_environment()


def test_all_of_them_are_removed_at_once(monkeypatch):
    for name in FORBIDDEN_VARIABLES:
        monkeypatch.setenv(name, "hunter2")
    with pytest.raises(KeyFileError):
        refuse_environment()
    assert not os.environ.keys() & set(FORBIDDEN_VARIABLES)


def test_a_secret_ends_with_its_block():
    with Secret(b"correct horse") as secret:
        buffer = secret._buffer
        view = secret.value
        assert view == b"correct horse"
        assert view.readonly
    assert buffer == bytes(13)
    assert view == bytes(13)
    with pytest.raises(ValueError, match="wiped"):
        _ = secret.value
    secret.wipe()


def test_a_secret_ends_when_it_is_forgotten_or_an_error_passes(monkeypatch):
    wiped = []
    monkeypatch.setattr(module, "wipe", lambda buffer: wiped.append(bytes(buffer)))
    view = Secret(b"correct horse").value
    assert (wiped, view) == ([], b"correct horse")  # a view keeps the bytes
    del view
    assert wiped == [b"correct horse"]
    monkeypatch.undo()
    kept = Secret(b"correct horse")
    with pytest.raises(RuntimeError), kept:
        raise RuntimeError
    assert kept._buffer == bytes(13)


def test_a_secret_is_a_copy_that_is_not_shown_nor_copied_further():
    source = bytearray(b"correct horse")
    secret = Secret(source)
    source[:] = bytes(13)
    assert secret.value == b"correct horse"
    for text in (repr(secret), str(secret), f"{secret}", repr([secret])):
        assert "horse" not in text
        assert "13" not in text
    for copier in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            copier(secret)
    assert not hasattr(secret, "__dict__")


@pytest.mark.parametrize("value", [b"", bytes(MAX_SECRET_BYTES + 1)])
def test_a_secret_has_a_length(value):
    with pytest.raises(ValueError, match=r"1\.\.1024 bytes"):
        Secret(value)
    with pytest.raises(TypeError):
        Secret(len(value))


def test_what_was_read_is_overwritten(file, monkeypatch):
    buffers = []
    right = module.read_private_file

    def remembering(*arguments, **options):
        buffers.append(right(*arguments, **options))
        return buffers[-1]

    monkeypatch.setattr(module, "read_private_file", remembering)
    file.write_bytes(b"correct horse\n")
    assert read(file) == b"correct horse"
    file.write_bytes(b"\n")
    assert reason(file) == "size"
    assert [bytes(buffer) for buffer in buffers] == [bytes(14), bytes(1)]
