"""The definition is written in operations that give the same bits everywhere, and in no others."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import engine.reference

FOLDER = Path(engine.reference.__file__).parent
FILES = sorted(FOLDER.glob("*.py"))

OURS = ("engine.config", "engine.errors", "engine.reference.", "engine.vqf.", "crypto.")
STANDARD_LIBRARY = {"__future__", "collections.abc", "os", "typing"}


def words(text: str) -> set[str]:
    return set(text.split())


# Elementwise IEEE-754 operations, conversions and moves of data; `add` and `multiply` write into a
# given array; the rest are types.
NUMPY_NAMES = words(
    """
    abs any arange array ascontiguousarray choose concatenate count_nonzero empty empty_like
    errstate full full_like isfinite isnan newaxis repeat rint sqrt stack where zeros zeros_like
    add multiply
    float16 float32 float64 floating int8 int16 int32 int64 integer uint8 uint32 uint64
    """
)
# Methods that reduce in an order of NumPy's own choice, or select by one.
REDUCTIONS = words(
    """
    accumulate argmax argmin argpartition argsort at cumprod cumsum dot einsum inner matmul max
    maximum mean min minimum norm
    outer partition prod reduce reduceat sort std sum tensordot trace var vdot
    """
)
BUILTINS = {"eval", "exec", "pow", "sum"}
# Exact in any order: integers held in binary64 (NUMERICS N4).
EXEMPT = {("integers.py", "integer_products"): "@", ("integers.py", "integer_sums"): "sum"}


class Violations(ast.NodeVisitor):
    """Collects what a module's text must not contain."""

    def __init__(self, file_name: str) -> None:
        self.file_name = file_name
        self.found: list[str] = []
        self.exempt: str | None = None

    def report(self, node: ast.AST, what: str) -> None:
        if what != self.exempt:
            self.found.append(f"{self.file_name}:{node.lineno}: {what}")

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        outer, self.exempt = self.exempt, EXEMPT.get((self.file_name, node.name), self.exempt)
        self.generic_visit(node)
        self.exempt = outer

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self._operator(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._operator(node)

    def _operator(self, node: ast.BinOp | ast.AugAssign) -> None:
        if isinstance(node.op, ast.MatMult):
            self.report(node, "@")
        if isinstance(node.op, ast.Pow):
            self.report(node, "**")
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        match node.value:
            case ast.Name(id="np") if node.attr not in NUMPY_NAMES:
                self.report(node, f"np.{node.attr}")
            case ast.Attribute(value=ast.Name(id="np")):
                self.report(node, f"attribute {node.attr} of a NumPy object")
            case _ if node.attr in REDUCTIONS:
                self.report(node, node.attr)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in BUILTINS:
            self.report(node, f"{node.func.id}()")
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if (alias.name, alias.asname) not in {("numpy", "np"), ("os", None)}:
                self.report(node, f"import {alias.name}")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        known = module in STANDARD_LIBRARY or module == "numpy.typing" or module.startswith(OURS)
        if not known:
            self.report(node, f"from {module}")


def violations(source: str, file_name: str) -> list[str]:
    visitor = Violations(file_name)
    visitor.visit(ast.parse(source))
    return visitor.found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_definition_keeps_the_rules(path):
    assert violations(path.read_text(), path.name) == []


def test_there_are_files_to_look_at():
    assert {"linear.py", "attention.py", "decoder.py", "integers.py"} <= {
        path.name for path in FILES
    }


@pytest.mark.parametrize(
    "line",
    [
        "y = a @ b",
        "a @= b",
        "y = x ** 2",
        "y = x.sum()",
        "y = x.mean(axis=1)",
        "y = np.sum(x)",
        "y = np.exp(x)",
        "y = np.dot(a, b)",
        "y = a.dot(b)",
        "y = np.einsum('ij,j->i', a, b)",
        "y = np.cumsum(x)",
        "y = np.add.reduce(x)",
        "y = np.linalg.norm(x)",
        "y = np.max(x)",
        "y = x.max()",
        "y = np.sort(x)",
        "x.sort()",
        "y = x.argsort()",
        "y = sum(x)",
        "y = pow(x, 2)",
        "y = np.power(x, 2)",
        "y = np.tanh(x)",
        "import math",
        "import numba",
        "import numpy",
        "from numpy import exp",
        "from math import exp",
        "from engine.kernels.linear import linear",
        "def integer_products(a, b):\n    return a.sum()",
    ],
)
def test_the_check_finds_each_forbidden_thing(line):
    assert violations(line, "linear.py")


def test_the_exemption_reaches_one_function_and_one_operation():
    body = "def integer_products(a, b):\n    return a {} b"
    assert violations(body.format("@"), "integers.py") == []
    assert violations(body.format("@"), "linear.py") != []
    assert violations(body.format("**"), "integers.py") != []
    assert violations("def other(a, b):\n    return a @ b", "integers.py") != []


def test_the_definition_does_not_load_numba():
    names = [f"engine.reference.{path.stem}" for path in FILES if path.stem != "__init__"]
    code = f"import {', '.join(names)}, sys; sys.exit('numba' in sys.modules)"
    root = FOLDER.parents[1]
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=root).returncode == 0


def test_this_process_keeps_subnormals():
    """What every other test rests on: no library switched flush-to-zero on."""
    import numpy as np

    tiny = np.array([2.0**-126], dtype=np.float32)
    assert (tiny / np.float32(2)).view(np.uint32)[0] == 0x00400000
    assert ((tiny / np.float32(2)) * np.float32(2)).view(np.uint32)[0] == 0x00800000
