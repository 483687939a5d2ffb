"""A tiny model, and a program that behaves like llama-bench."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.convert.convert import convert
from tests.engine.convert.support import CONVERT

FAKE = """#!{python}
import json, sys
words = sys.argv[1:]
with open({log!r}, "a") as log:
    log.write(json.dumps(words) + "\\n")
{body}
"""


@pytest.fixture(scope="session")
def tiny_gguf() -> Path:
    """A Llama of three layers in F32."""
    return CONVERT / "llama_tiny-f32.gguf"


@pytest.fixture(scope="session")
def tiny_vqf(tiny_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same weights as VQF."""
    path = tmp_path_factory.mktemp("tiny") / "tiny.vqf"
    convert(tiny_gguf, path)
    return path


class FakeLlamaBench:
    """A stand-in for llama-bench that keeps a list of how it was called."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "llama-bench"
        self._log = folder / "calls"
        self.prints({"samples_ts": [100.0], "build_commit": "abc", "n_threads": 1})

    def prints(self, *results: dict[str, Any]) -> None:
        """Let it print results as JSON."""
        self.runs(f"print({json.dumps(list(results))!r})")

    def runs(self, body: str) -> None:
        """Let it do anything."""
        text = FAKE.format(python=sys.executable, log=str(self._log), body=body)
        self.path.write_text(text)
        self.path.chmod(0o755)

    def calls(self) -> list[list[str]]:
        """Return the arguments of every call."""
        return [json.loads(line) for line in self._log.read_text().splitlines()]


@pytest.fixture
def fake(tmp_path: Path) -> FakeLlamaBench:
    """A stand-in for llama-bench that measures 100 tokens per second."""
    return FakeLlamaBench(tmp_path)
