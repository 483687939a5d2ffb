"""The rules and codes that the code raises are those of crypto/README.md, and each has a vector."""

from __future__ import annotations

import ast

import pytest

from tests.crypto.test_crypto_readme import ROOT, table_after

RAISED_BY = {"FormatError": 1, "refusal": 1, "KeyFileError": 0}


def raised(*modules):
    """Return the constant names that modules give to the errors that they make."""
    names = set()
    for module in modules:
        tree = ast.parse((ROOT / "crypto" / f"{module}.py").read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            function = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if function in RAISED_BY and len(node.args) == 2:
                argument = node.args[RAISED_BY[function]]
                if isinstance(argument, ast.Constant):
                    names.add(argument.value)
    return names


def table(heading):
    return {row[0] for row in table_after(heading)}


def vectors(load_vectors):
    tests = load_vectors("cose_invalid.json")["tests"] + load_vectors("release.json")["invalid"]
    return {test["rule"] for test in tests}


@pytest.mark.parametrize(
    ("heading", "modules", "elsewhere"),
    [
        ("object rule", ["cbor_map"], set()),
        ("COSE rule", ["cose"], {"max-bytes"}),  # a rule of CBOR, for the caller's limit
        ("release rule", ["release"], set()),
        (
            "software rule",
            ["software"],
            {"type", "value-type", "value-range", "text-characters"},  # of COSE and of objects
        ),
        ("secret reason", ["secret", "private_file"], set()),
    ],
)
def test_rules_equal_the_table(heading, modules, elsewhere):
    assert raised(*modules) == table(heading) | elsewhere
    assert len(table_after(heading)) == len(table(heading))


def test_each_rule_has_a_vector(load_vectors):
    rules = table("object rule") | table("COSE rule") | table("release rule")
    assert rules - vectors(load_vectors) == {"type"}  # depends on what the reader expects
    assert vectors(load_vectors) <= rules | table("rule")
