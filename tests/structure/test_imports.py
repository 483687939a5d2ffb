"""Who may import whom."""

from __future__ import annotations

import ast
import json
import subprocess
import sys

import pytest

from tests.structure.source import CHECKOUT, PACKAGES, imports, package_modules, tree

MAY_IMPORT: dict[str, set[str]] = {
    "simd": set(),
    "crypto": set(),
    "crypto.kernels": {"simd"},
    "engine": {"simd", "crypto"},
    "verifier": set(),
    "he_chain": {"engine", "crypto"},
    "appliance": {"simd", "crypto", "engine", "verifier", "he_chain"},
}


def forbidden(module: str, names: set[str]) -> set[str]:
    """Return the imported names that lie in one of our packages which `module` may not use.

    The row of `MAY_IMPORT` that names most of the module's path counts.
    """
    rows = [row for row in MAY_IMPORT if f"{module}.".startswith(f"{row}.")]
    others = set(PACKAGES) - MAY_IMPORT[max(rows, key=len)] - {module.partition(".")[0]}
    return {name for name in names if name.partition(".")[0] in others}


def find_circle(graph: dict[str, set[str]]) -> list[str]:
    """Return the modules of one circle of imports, or nothing."""
    done: set[str] = set()

    def visit(name: str, trail: list[str]) -> list[str]:
        if name in trail:
            return [*trail[trail.index(name) :], name]
        if name in done:
            return []
        for target in sorted(graph.get(name, ())):
            if circle := visit(target, [*trail, name]):
                return circle
        done.add(name)
        return []

    for name in sorted(graph):
        if circle := visit(name, []):
            return circle
    return []


def loaded_after(statement: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter has loaded after a statement."""
    program = f"import json, sys\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=CHECKOUT
    )
    return {name.partition(".")[0] for name in json.loads(result.stdout)}


def test_packages_import_only_what_the_design_allows() -> None:
    modules = package_modules()
    assert {"simd", "crypto", "crypto.kernels", "engine", "appliance"} <= set(modules)
    broken = {
        name: found
        for name, path in modules.items()
        if (found := forbidden(name, imports(tree(path))))
    }
    assert not broken


def test_no_circular_imports() -> None:
    modules = package_modules()
    graph = {
        name: {target for target in imports(tree(path)) if target in modules and target != name}
        for name, path in modules.items()
    }
    assert sum(map(len, graph.values())) > 20
    assert find_circle(graph) == []


def test_imports_are_absolute() -> None:
    for path in package_modules().values():
        relative = [
            node for node in ast.walk(tree(path)) if isinstance(node, ast.ImportFrom) and node.level
        ]
        assert not relative, path


def test_light_parts_do_not_load_numba() -> None:
    light = [
        name
        for name in package_modules()
        if (name.partition(".")[0] in {"crypto", "verifier"} or name.startswith("engine.vqf"))
        and not name.startswith("crypto.kernels")
    ]
    assert {"crypto", "engine.vqf"} <= set(light)
    assert "numba" not in loaded_after("import " + ", ".join(light))


def test_the_command_line_starts_light() -> None:
    assert not {"numba", "numpy"} & loaded_after("import appliance.cli.main")


def test_the_verifier_needs_only_the_standard_library() -> None:
    for name, path in package_modules().items():
        if name.partition(".")[0] == "verifier":
            outside = {target.partition(".")[0] for target in imports(tree(path))}
            assert outside <= sys.stdlib_module_names | {"verifier"}, name


@pytest.mark.parametrize(
    ("module", "source", "found"),
    [
        ("simd.code", "from crypto.sm3 import sm3", {"crypto.sm3", "crypto.sm3.sm3"}),
        ("crypto.kernels.sm3", "import simd.code", set()),
        ("crypto.kernels", "import engine.errors", {"engine.errors"}),
        ("crypto.kernels_of_another", "import simd.code", {"simd.code"}),
        ("crypto.bulk", "import simd.code", {"simd.code"}),
        ("crypto", "import engine.errors", {"engine.errors"}),
        ("engine", "from crypto import sm3", set()),
        (
            "engine",
            "def f():\n    from appliance.cli import main",
            {"appliance.cli", "appliance.cli.main"},
        ),
        ("verifier", "from crypto.sm3 import digest", {"crypto.sm3", "crypto.sm3.digest"}),
        ("appliance", "import engine, crypto, verifier", set()),
    ],
)
def test_a_forbidden_import_is_seen(module: str, source: str, found: set[str]) -> None:
    assert forbidden(module, imports(ast.parse(source))) == found


def test_a_circle_is_seen() -> None:
    assert find_circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert find_circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
