"""What /v1/status says about the keys of the machine: what the unit hands on, else the disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from appliance.service.key_protection import key_protection
from tests.appliance.service.shell import Shell


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b"tpm\n", "tpm"),
        (b"tpm", "tpm"),
        (b"passphrase\n", "passphrase"),
        (b"disk\n", "disk"),
        (b"vault\n", "disk"),
        (b"tpm2\n", "disk"),
        (b"\xff\n", "disk"),
        (b"", "disk"),
        (None, "disk"),
    ],
)
def test_the_credential_says_it(
    said: bytes | None, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    if said is not None:
        (tmp_path / "keys").write_bytes(said)
        (tmp_path / "keys").chmod(0o400)
    assert key_protection() == expected


def test_without_systemd_it_is_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    assert key_protection() == "disk"


def test_what_others_can_write_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    (tmp_path / "keys").write_bytes(b"tpm")
    (tmp_path / "keys").chmod(0o666)
    assert key_protection() == "disk"


def test_the_status_says_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Shell(tmp_path)

    def said() -> str:
        answer = made.app.test_client().get("/v1/status", headers=made.headers).get_json()
        assert str(tmp_path) not in json.dumps(answer)
        value: str = answer["key_protection"]
        return value

    assert said() == "disk"
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    (tmp_path / "keys").write_bytes(b"tpm\n")
    (tmp_path / "keys").chmod(0o400)
    assert said() == "tpm"
