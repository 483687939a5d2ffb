"""The tables of crypto/README.md and the code say the same."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from crypto import labels, merkle

ROOT = Path(__file__).parents[2]
PACKAGES = ("crypto", "engine", "verifier", "he_chain", "appliance", "firmware")
LABEL = re.compile(r"windhover/[a-z][a-z/-]*;v=[0-9]+")
LABEL_START = re.compile(r"windhover/[a-z]")
NUMBER = re.compile(r"-70[0-9]{3}\b")


def table_after(heading):
    """Return the rows of the first table whose header begins with `heading`."""
    lines = (ROOT / "crypto" / "README.md").read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {heading} |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().strip("`") for cell in line.strip("|").split("|")])
    return rows


def literals(path):
    """Yield every text and byte string of a Python file, docstrings included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            value = node.value
            yield value if isinstance(value, str) else value.decode("latin-1")


def python_files():
    return [path for name in PACKAGES for path in sorted((ROOT / name).rglob("*.py"))]


def documents():
    """Return the specifications of all packages but the one with the tables."""
    files = [path for name in PACKAGES for path in sorted((ROOT / name).rglob("*.md"))]
    return [path for path in files if path != ROOT / "crypto" / "README.md"]


def test_constants_equal_the_table_of_labels():
    rows = table_after("label")
    table = {constant: label.encode("ascii") + b"\0" for label, constant, *_ in rows if constant}
    constants = {
        name: value for name, value in vars(labels).items() if name.isupper() and name[0] != "_"
    }
    assert constants == table
    assert len({row[0] for row in rows}) == len(rows)


def test_tree_prefixes_equal_the_table():
    table = {row[1]: bytes([int(row[0], 16)]) for row in table_after("tree prefix")}
    assert table == {"LEAF_PREFIX": merkle.LEAF_PREFIX, "NODE_PREFIX": merkle.NODE_PREFIX}


def test_no_label_begins_another():
    names = [row[0].encode("ascii") + b"\0" for row in table_after("label")]
    for name in names:
        assert name[:1] not in (merkle.LEAF_PREFIX, merkle.NODE_PREFIX)
        assert not any(other != name and other.startswith(name) for other in names)


def known_names():
    """Return labels, object types and profiles."""
    headings = ("label", "object type", "profile")
    return {row[0] for heading in headings for row in table_after(heading)}


def test_every_label_in_the_code_is_in_the_table():
    files = python_files()
    assert ROOT / "crypto" / "labels.py" in files
    unknown = [
        (str(path.relative_to(ROOT)), value)
        for path in files
        for value in literals(path)
        if LABEL_START.match(value) and value.rstrip("\0") not in known_names()
    ]
    assert not unknown


def test_every_label_in_a_specification_is_in_the_table():
    unknown = {
        (str(path.relative_to(ROOT)), name)
        for path in documents()
        for name in LABEL.findall(path.read_text(encoding="utf-8"))
        if name not in known_names()
    }
    assert not unknown


def test_every_private_number_is_in_the_table():
    numbers = [row[0] for row in table_after("number")]
    assert len(set(numbers)) == len(numbers)
    files = [*python_files(), *documents()]
    used = {n for path in files for n in NUMBER.findall(path.read_text(encoding="utf-8"))}
    assert used <= set(numbers)


def test_cbor_rules_equal_the_table_and_each_has_a_vector(load_vectors):
    table = [row[0] for row in table_after("rule")]
    tree = ast.parse((ROOT / "crypto" / "cbor.py").read_text(encoding="utf-8"))
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    raised = {
        node.args[1].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", "") == "FormatError"
        and isinstance(node.args[1], ast.Constant)
    }
    named = {
        node.value
        for statement in functions["_simple_rule"].body[1:]  # after the docstring
        for node in ast.walk(statement)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert sorted(raised | named) == sorted(table)
    vectors = load_vectors("cbor_invalid.json")["tests"]
    assert {vector["rule"] for vector in vectors} == set(table)
