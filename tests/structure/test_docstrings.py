"""Every public module, class and function of the packages says what it is."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tests.structure.source import package_modules, tree

if TYPE_CHECKING:
    from collections.abc import Iterator

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def undocumented(name: str, node: Documented) -> Iterator[str]:
    """Yield the dotted names of what has no docstring: the node and the public ones in it."""
    if not ast.get_docstring(node):
        yield name
    if isinstance(node, ast.Module | ast.ClassDef):
        for child in node.body:
            if isinstance(child, Documented) and not child.name.startswith("_"):
                yield from undocumented(f"{name}.{child.name}", child)


def test_everything_public_is_documented() -> None:
    modules = package_modules()
    assert len(modules) > 20
    missing = [found for name, path in modules.items() for found in undocumented(name, tree(path))]
    assert not missing


def test_missing_docstrings_are_seen() -> None:
    source = 'def f(): pass\nclass A:\n    """A."""\n    def g(self): pass\n    def _h(self): pass'
    assert list(undocumented("m", ast.parse(source))) == ["m", "m.f", "m.A.g"]
