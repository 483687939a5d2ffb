"""pyproject.toml, the lock and the code agree about packages."""

from __future__ import annotations

import re
import sys
import tomllib

from appliance.cli.errors import OPTIONAL_PACKAGES
from tests.structure.source import CHECKOUT, PACKAGES, imports, package_modules, tree

PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
REQUIREMENT = re.compile(r"[A-Za-z0-9._-]+")
LOCKED = re.compile(r"^([a-z0-9-]+)==([^ ;\\]+)", re.MULTILINE)


def names(requirements: list[str]) -> set[str]:
    """Return the normalised names of requirements."""
    found = [REQUIREMENT.match(requirement) for requirement in requirements]
    return {match.group().lower().replace("_", "-") for match in found if match}


def required() -> set[str]:
    """Return what a plain installation brings."""
    return names(PROJECT["project"]["dependencies"])


def extras() -> dict[str, set[str]]:
    """Return what each extra brings."""
    optional = PROJECT["project"]["optional-dependencies"]
    return {extra: names(requirements) for extra, requirements in optional.items()}


def imported_from_outside() -> set[str]:
    """Return the top-level modules that the packages import from other distributions."""
    found = set()
    for path in package_modules().values():
        found |= {name.partition(".")[0] for name in imports(tree(path))}
    for_type_checkers = {"_typeshed"}
    outside = found - sys.stdlib_module_names - for_type_checkers - set(PACKAGES)
    return {name.replace("_", "-") for name in outside}


def test_every_import_is_declared() -> None:
    assert imported_from_outside() <= required() | set(OPTIONAL_PACKAGES)


def test_every_dependency_is_used() -> None:
    assert required() <= imported_from_outside()


def test_optional_packages_are_in_the_extra_that_the_message_names() -> None:
    for package, extra in OPTIONAL_PACKAGES.items():
        assert package in extras()[extra]
        assert package not in required()


def test_the_lock_pins_everything_with_digests() -> None:
    text = (CHECKOUT / "requirements.lock").read_text(encoding="utf-8")
    pinned = {name for name, _ in LOCKED.findall(text)}
    assert required().union(*extras().values()) <= pinned
    blocks = re.split(r"^(?=[a-z])", text, flags=re.MULTILINE)[1:]
    assert len(blocks) == len(pinned)
    assert all("--hash=sha256:" in block for block in blocks)


def test_every_package_is_distributed() -> None:
    included = PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]
    here = {package for package in PACKAGES if (CHECKOUT / package).is_dir()}
    assert {pattern.removesuffix("*") for pattern in included} == here


def test_the_licence_is_the_one_declared() -> None:
    assert PROJECT["project"]["license"] == "Apache-2.0"
    assert "Apache License" in (CHECKOUT / "LICENSE").read_text(encoding="utf-8")


def test_every_lint_rule_that_is_off_has_a_reason() -> None:
    text = (CHECKOUT / "pyproject.toml").read_text(encoding="utf-8")
    lint = text[text.index("\nignore = [") : text.index("[tool.mypy]")]
    rules = [line for line in lint.splitlines() if re.match(r'\s+"[A-Z]+[0-9]*"', line)]
    assert len(rules) > 10
    assert [line for line in rules if "#" not in line] == []
