"""The library is optional, and nothing of it leaks out of its backend."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from he_chain.backends.seal import SealHolder
from he_chain.backends.seal_library import from_bytes, load_library, to_bytes, translated
from he_chain.errors import BackendError, LevelError, ProtocolError
from tests.he_chain.backends.conftest import ONE_LEVEL
from tests.structure.source import CHECKOUT, package_modules

WITHOUT_TENSEAL = sorted(
    name
    for name in package_modules()
    if name.startswith("he_chain") and name.rpartition(".")[2] != "__main__"
)


def loaded_after(*modules: str) -> set[str]:
    program = "import importlib, json, sys\n"
    program += f"for name in {list(modules)!r}: importlib.import_module(name)\n"
    program += "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    result = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=CHECKOUT
    )
    return set(json.loads(result.stdout))


def test_no_module_imports_tenseal() -> None:
    """Backends of SEAL look for it when they are used."""
    assert "he_chain.backends.seal" in WITHOUT_TENSEAL
    assert "tenseal" not in loaded_after(*WITHOUT_TENSEAL)


def test_the_imitation_needs_no_compiler() -> None:
    loaded = loaded_after("he_chain.backends.mock", "he_chain.layout", "he_chain.polynomial.poly")
    assert not loaded & {"numba", "llvmlite", "tenseal"}


def test_an_absent_library_is_explained(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "tenseal.sealapi", None)
    with pytest.raises(BackendError, match="extra `he`"):
        SealHolder.create(ONE_LEVEL)


@pytest.mark.parametrize(
    "error", [RuntimeError, ValueError, IndexError, OverflowError, MemoryError]
)
def test_exceptions_of_the_library_become_ours(error) -> None:
    with (
        pytest.raises(LevelError, match=r"^square: SEAL says: why$"),
        translated("square", LevelError),
    ):
        raise error("why")


def open_files() -> list[str]:
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


def test_objects_go_through_memory_that_is_closed() -> None:
    library = load_library()
    plain = library.Plaintext("1x^2 + 3")
    before = open_files()
    data = to_bytes("save", plain.save)
    assert data[:2] == b"\x5e\xa1"
    seen = []
    from_bytes("load", lambda path: seen.append(Path(path).read_bytes()), data)
    assert seen == [data]
    for bad in (b"", data[:-1], data + b"\0", b"\0" + data):
        with pytest.raises(ProtocolError, match="not all of it"):
            from_bytes("load", seen.append, bad)

    def failing(path: str) -> None:
        raise RuntimeError(path)

    with pytest.raises(BackendError):
        to_bytes("save", failing)
    with pytest.raises(ProtocolError):
        from_bytes("load", failing, data)
    assert open_files() == before
