"""What a wheelhouse is made of: the lock, and what wheels say of themselves."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import re
import tomllib
import zipfile
from email.message import Message
from pathlib import Path

import pytest

from firmware.wheelhouse import collect
from firmware.wheelhouse.__main__ import main
from firmware.wheelhouse.components import (
    NOT_STATED,
    as_json,
    as_text,
    home_page_of,
    licence_of,
    read_wheel,
)
from firmware.wheelhouse.errors import WheelhouseError
from firmware.wheelhouse.lock import (
    direct_names,
    needed,
    normalised,
    read_lock,
    requirement_lines,
)
from tests.firmware.tools import FIRMWARE

CHECKOUT = FIRMWARE.parent
LOCK = (CHECKOUT / "requirements.lock").read_text("utf-8")
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))["project"]
REAL = ("click", "flask", "waitress", "tokenizers", "numpy")


def wheel_of(name: str, folder: Path) -> Path:
    """Make a wheel of the metadata that an installed package has, licences included."""
    found = importlib.metadata.distribution(name)
    path = folder / f"{name}-{found.version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file in found.files or ():
            if ".dist-info/" in str(file) and file.name != "RECORD":
                archive.write(str(file.locate()), str(file))
    return path


def test_only_the_run_time_is_needed() -> None:
    pins = read_lock(LOCK)
    assert len(pins) > 80
    names = {pin.name for pin in needed(pins, direct_names(PROJECT, ()))}
    assert {"numpy", "llvmlite", "cffi", "markupsafe", "tokenizers"} <= names
    assert not {"pytest", "mypy", "openai", "playwright", "setuptools", "tenseal"} & names
    # and what each of them says itself that it needs, wherever it is
    for name in (name for name in names if not pins[name].marker):
        for text in importlib.metadata.requires(name) or ():
            if ";" not in text:
                assert normalised(re.split(r"[^A-Za-z0-9._-]", text)[0]) in names, text


def test_extras_bring_theirs() -> None:
    pins = read_lock(LOCK)
    plain = {pin.name for pin in needed(pins, direct_names(PROJECT, ()))}
    with_he = {pin.name for pin in needed(pins, direct_names(PROJECT, ("he", "plots")))}
    assert {"tenseal", "matplotlib", "pillow"} <= with_he - plain
    with pytest.raises(WheelhouseError, match="there is no extra nothing"):
        direct_names(PROJECT, ("nothing",))


def test_pins_keep_their_digests_and_conditions() -> None:
    pins = read_lock(LOCK)
    lines = requirement_lines([pins["gmssl"], pins["cffi"]])
    version, digests = pins["gmssl"].version, sorted(pins["gmssl"].digests)
    assert lines[0] == f"gmssl=={version} --hash=sha256:{digests[0]}"
    assert lines[1].count("--hash=sha256:") == len(pins["cffi"].digests) > 10
    assert "platform_python_implementation" in lines[1]


@pytest.mark.parametrize(
    ("text", "says"),
    [("a>=1 \\\n", "not understood: a>=1"), ("a==1 \\\n    # via b\n", "no digest for a")],
)
def test_another_lock_is_refused(text: str, says: str) -> None:
    with pytest.raises(WheelhouseError, match=says):
        read_lock(text)


def test_what_the_lock_does_not_have_is_missed() -> None:
    with pytest.raises(WheelhouseError, match="does not have flask"):
        needed({}, {"flask"})


def test_wheels_say_what_they_are(tmp_path: Path) -> None:
    wheels = {name: read_wheel(wheel_of(name, tmp_path)) for name in REAL}
    for name, wheel in wheels.items():
        component = wheel.component
        assert component.name == name
        assert component.version == importlib.metadata.version(name)
        assert component.licence != NOT_STATED
        assert component.home_page.startswith("http")
        assert (
            component.sha256 == hashlib.sha256((tmp_path / component.file).read_bytes()).hexdigest()
        )
    assert wheels["click"].component.licence == "BSD-3-Clause"
    assert "Apache" in wheels["tokenizers"].component.licence
    assert any("LICENSE" in name for name in wheels["numpy"].texts)
    assert b"Copyright" in b"".join(wheels["flask"].texts.values())
    components = [wheel.component for wheel in wheels.values()]
    lines = as_text(components).splitlines()
    assert lines[0].split() == ["name", "version", "licence", "home", "page"]
    assert len(lines) == len(REAL) + 1
    assert all(each.licence in line for each, line in zip(components, lines[1:], strict=True))
    listed = json.loads(as_json(components))["components"]
    assert [each["name"] for each in listed] == list(REAL)
    assert collect.install_lines(components).splitlines()[0] == (
        f"click=={components[0].version} --hash=sha256:{components[0].sha256}"
    )


def test_names_of_texts_stay_inside(tmp_path: Path) -> None:
    path = tmp_path / "x-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x-1.dist-info/METADATA", "Name: X.y\nVersion: 1\n")
        for name in (
            "licenses/../../../out",
            "licenses/",
            "licenses/a/COPYING",
            "LICENSE",
            "RECORD",
        ):
            archive.writestr(f"x-1.dist-info/{name}", "text")
    wheel = read_wheel(path)
    assert sorted(wheel.texts) == ["LICENSE", "a/COPYING"]
    assert wheel.component.name == "x-y"
    assert wheel.component.licence == wheel.component.home_page == NOT_STATED


def test_what_is_no_wheel_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"no")
    with pytest.raises(WheelhouseError, match=r"a\.whl is no wheel"):
        read_wheel(tmp_path / "a.whl")
    with zipfile.ZipFile(tmp_path / "b.whl", "w") as archive:
        archive.writestr("b.py", "")
    with pytest.raises(WheelhouseError, match=r"b\.whl is no wheel"):
        read_wheel(tmp_path / "b.whl")


@pytest.mark.parametrize(
    ("fields", "licence"),
    [
        ([("License-Expression", "MIT"), ("License", "other")], "MIT"),
        ([("License", "ZPL 2.1")], "ZPL 2.1"),
        ([("License", "Long\ntext"), ("Classifier", "License :: OSI Approved :: A")], "A"),
        ([("License", "Title\ntext")], "Title"),
        ([], NOT_STATED),
    ],
)
def test_licences_come_from_where_packages_state_them(
    fields: list[tuple[str, str]], licence: str
) -> None:
    message = Message()
    for name, value in fields:
        message[name] = value
    assert licence_of(message) == licence


def test_home_pages_come_from_where_packages_state_them() -> None:
    message = Message()
    message["Project-URL"] = "Changes, https://a/changes"
    assert home_page_of(message) == "https://a/changes"
    message["Project-URL"] = "Source Code, https://a/code"
    assert home_page_of(message) == "https://a/code"
    message["Home-page"] = "https://a"
    assert home_page_of(message) == "https://a"


def test_sums_are_over_everything_else(tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels/a").write_bytes(b"a")
    (tmp_path / "b").write_bytes(b"b")
    for _ in range(2):  # the list is not in itself
        collect.write_sums(tmp_path)
        sums = (tmp_path / "SHA256SUMS").read_text().splitlines()
        assert [line.split("  ")[1] for line in sums] == ["b", "wheels/a"]
        assert sums[0].split()[0] == hashlib.sha256(b"b").hexdigest()


def test_nothing_is_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"wheelhouse: {tmp_path} exists already\n"
