"""What a process removes from its environment, and says so."""

from __future__ import annotations

import pytest

from appliance.service.housekeeping import clean_environment
from tests.appliance.service.child import run


@pytest.mark.parametrize(
    "name", ["OPENSSL_CONF", "OPENSSL_MODULES", "OPENSSL_ENGINES", "NUMBA_DISABLE_JIT"]
)
def test_settings_that_bring_in_other_code_are_removed_and_named(name: str) -> None:
    environment = {name: "/somewhere", "PATH": "/bin", "NUMBA_CPU_NAME": "x86-64-v3"}
    (line,) = clean_environment(environment)
    assert line.startswith(f"{name} in the environment is not used: ")
    assert environment == {"PATH": "/bin", "NUMBA_CPU_NAME": "x86-64-v3"}


def test_nothing_is_said_where_nothing_was() -> None:
    assert clean_environment({"HOME": "/x"}) == []


def test_no_bytecode_and_no_core_is_written_by_it_or_by_what_it_starts() -> None:
    program = """
import json, resource, subprocess, sys
from appliance.service import housekeeping
housekeeping.keep_bytecode()
housekeeping.no_core_dumps()
child = "import sys; print(sys.dont_write_bytecode)"
out = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True).stdout
limit = resource.getrlimit(resource.RLIMIT_CORE)
print(json.dumps([sys.dont_write_bytecode, out.strip(), limit]))
"""
    assert run(program) == [True, "True", [0, 0]]
