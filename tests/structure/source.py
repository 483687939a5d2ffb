"""The project's own files, and what their syntax trees say."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECKOUT = Path(__file__).parent.parent.parent
PACKAGES = ("simd", "crypto", "engine", "verifier", "he_chain", "appliance")
NOT_OURS = {".git", ".venv", ".cache", "models", "build", "dist", "__pycache__"}


def project_files() -> list[Path]:
    """Return every file of the checkout that is not made by a tool."""
    return sorted(_walk(CHECKOUT))


def _walk(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.name in NOT_OURS or path.name.endswith((".egg-info", "_cache", ".hypothesis")):
            continue
        if path.is_dir():
            yield from _walk(path)
        else:
            yield path


def package_modules() -> dict[str, Path]:
    """Return the dotted name and the file of every module of the packages."""
    modules = {}
    for package in PACKAGES:
        for path in sorted((CHECKOUT / package).rglob("*.py")):
            parts = path.relative_to(CHECKOUT).with_suffix("").parts
            modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


@cache
def tree(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports(module: ast.Module) -> set[str]:
    """Return the dotted names that a module imports anywhere, also in functions and for typing.

    `from a.b import c` counts as `a.b` and as `a.b.c`.
    """
    names = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names
