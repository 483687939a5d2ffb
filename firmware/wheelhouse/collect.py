"""A folder from which the locked environment is installed without a network.

The files come from pip, which compares each with the digests of the lock before it keeps it; the
project's own wheel is built from this checkout, with fixed times, so that the same sources give the
same bytes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from firmware.wheelhouse.components import Component, Wheel, as_json, as_text, read_wheel
from firmware.wheelhouse.errors import WheelhouseError
from firmware.wheelhouse.lock import PROJECT, direct_names, needed, read_lock, requirement_lines

REQUIREMENTS: Final = "requirements.txt"
SUMS: Final = "SHA256SUMS"
WHEELS: Final = "wheels"
LICENCES: Final = "licences"

_SOURCE_DATE: Final = "1767225600"  # 2026-01-01, as every build of the project
_SOURCES: Final = ("pyproject.toml", "README.md", "LICENSE")
_BUILDERS: Final = ("__pycache__", "*.py", "image", "wheelhouse")
"""What of firmware/ prepares machines and does not belong onto one."""

_PYTHON: Final = "3.11"
_MANYLINUX: Final = (36, 35, 34, 31, 28, 27, 24, 17)
"""Minor versions of glibc 2 that packages are built for and Debian 12 (2.36) can use."""


def collect(checkout: Path, out: Path, *, extras: Sequence[str], machine: str | None) -> int:
    """Fill the new folder `out`; return the number of components.

    Args:
        checkout: the project.
        out: must not exist.
        extras: of pyproject.toml.
        machine: `x86_64` or `aarch64` when it is for another processor than this one.

    Raises:
        WheelhouseError: `out` exists, or something cannot be had.
        OSError: a file cannot be read or written.
    """
    if out.exists():
        raise WheelhouseError(f"{out} exists already")
    project = tomllib.loads((checkout / "pyproject.toml").read_text("utf-8"))["project"]
    pins = read_lock((checkout / "requirements.lock").read_text("utf-8"))
    wanted = needed(pins, direct_names(project, extras))
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as folder:
        made = Path(folder, "out")
        wheels = made / WHEELS
        wheels.mkdir(parents=True)
        listed = Path(folder, "wanted.txt")
        listed.write_text("\n".join(requirement_lines(wanted)) + "\n", "utf-8")
        _pip(
            "download", "--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:",
            "--dest", str(wheels), "-r", str(listed), *_platform(machine),
        )  # fmt: skip
        _build(checkout, Path(folder, "source"), wheels)
        ignored = shutil.ignore_patterns(*_BUILDERS)
        shutil.copytree(checkout / "firmware", made / "firmware", ignore=ignored)
        found = [read_wheel(path) for path in sorted(wheels.iterdir())]
        _write_lists(made, found, [pin.name for pin in wanted])
        made.chmod(0o755)
        made.rename(out)
    return len(found)


def write_sums(folder: Path) -> None:
    """Write SHA256SUMS over every other file of a folder, as `sha256sum --check` reads it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SUMS)
    lines = (
        f"{sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder).as_posix()}\n"
        for path in files
    )
    (folder / SUMS).write_text("".join(lines), "utf-8")


def install_lines(components: Sequence[Component]) -> str:
    """Return the requirements file of a wheelhouse: each file by its one digest."""
    return "".join(
        f"{each.name}=={each.version} --hash=sha256:{each.sha256}\n" for each in components
    )


def _write_lists(made: Path, found: Sequence[Wheel], wanted: Sequence[str]) -> None:
    components = [wheel.component for wheel in found]
    names = [each.name for each in components]
    if len(set(names)) != len(names):
        raise WheelhouseError("pip gave two files for one package")
    if foreign := set(names) - {*wanted, PROJECT}:
        raise WheelhouseError(f"pip gave what nobody asked for: {min(foreign)}")
    for wheel in found:
        for name, text in wheel.texts.items():
            path = made / LICENCES / wheel.component.name / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
    (made / REQUIREMENTS).write_text(install_lines(components), "utf-8")
    (made / "components.json").write_text(as_json(components), "utf-8")
    (made / "components.txt").write_text(as_text(components), "utf-8")
    write_sums(made)


def _platform(machine: str | None) -> list[str]:
    """Return what makes pip choose for Debian 12 on another processor."""
    if machine is None:
        return []
    words = ["--python-version", _PYTHON, "--implementation", "cp"]
    for abi in ("cp311", "abi3", "none"):
        words += ["--abi", abi]
    for minor in _MANYLINUX:
        words += ["--platform", f"manylinux_2_{minor}_{machine}"]
    return [*words, "--platform", f"manylinux2014_{machine}"]


def _build(checkout: Path, source: Path, wheels: Path) -> None:
    """Build the project's own wheel from a copy: a build leaves nothing in the checkout."""
    packages = tomllib.loads((checkout / "pyproject.toml").read_text("utf-8"))
    patterns = packages["tool"]["setuptools"]["packages"]["find"]["include"]
    source.mkdir()
    for name in _SOURCES:
        shutil.copy(checkout / name, source / name)
    for pattern in patterns:
        name = pattern.removesuffix("*")
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")
        shutil.copytree(checkout / name, source / name, ignore=ignored)
    # pip builds with this environment's setuptools, which the lock pins: nothing is fetched
    _pip(
        "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation",
        "--wheel-dir", str(wheels), str(source),
    )  # fmt: skip


def _pip(*words: str) -> None:
    """Run pip.

    Raises:
        WheelhouseError: it failed; its last line says why.
    """
    done = subprocess.run(  # noqa: S603  this interpreter, with arguments of our own
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *words],
        capture_output=True,
        check=False,
        text=True,
        env=os.environ | {"SOURCE_DATE_EPOCH": _SOURCE_DATE},
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no reason given"]
        errors = [line for line in lines if line.startswith("ERROR")]
        raise WheelhouseError(f"pip {words[0]}: {(errors or lines)[0]}")
