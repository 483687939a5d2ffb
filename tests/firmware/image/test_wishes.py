"""`setup.toml`: what is wrong is refused with the name of the field, before anything is done."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.firmware.image.ground import IMAGE, SETUP, Ground

# (what stands in the file, what takes its place, what is said)
WRONG = [
    ("version = 1\n", "", "version is missing"),
    ("version = 1", "version = 2", "version is not 1"),
    ("version = 1", "version = true", "version is not of type int"),
    ("format_data = true", 'format_data = "yes"', "format_data is not of type bool"),
    ("format_data = true", "format_all = true", "format_all is not known"),
    ('issuer = "an appliance"\n', "", "issuer is missing"),
    ('issuer = "an appliance"', 'issuer = "a\\"\\nmode = 1"', "issuer is not what it has to be"),
    ('model = "tiny"', 'model = ""', "model is not what it has to be"),
    ('hosts = ["ai.example", "10.0.2.15"]', "hosts = []", "hosts is empty"),
    ('"ai.example"', '"ai example"', "hosts: 'ai example' is no name of a host"),
    ('"ai.example"', "7", "hosts: 7 is no name of a host"),
    ('"10.0.2.0/24"', '"10.0.2.1/24"', "clients: 10.0.2.1/24 has host bits set"),
    ('"10.0.2.0/24"', '"10.0.2.0/24 } ; accept"', "clients: "),
    ('["10.0.2.2"]', '["time.example"]', "time_servers: "),
    ('interface = "eth0"', 'interface = "eth0\\nDHCP=yes"', "network.interface is not"),
    ('"10.0.2.15/24"', '"10.0.2.15"', "network.addresses: '10.0.2.15' has no prefix"),
    ('gateway = "10.0.2.2"', 'gateway = "10.0.2"', "network.gateway: "),
    ('gateway = "10.0.2.2"', "dhcp = true", "network.dhcp is not known"),
    ("version = 1", 'version = 1\nkeys = "vault"', "keys is none of auto, tpm, disk"),
    ("version = 1", 'version = 1\nclient_certificates = "x"', "client_certificates is none of"),
    ("version = 1", 'version = 1\ndata_disk = "/etc/passwd"', "data_disk is not"),
    ("version = 1", 'version = 1\ndata_disk = "/dev/../etc/x"', "data_disk is not"),
    ("version = 1", "version = 1\nversion = 1", "setup.toml: "),
]


@pytest.fixture
def parse(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes], Any]]:
    """Read setup.toml as the machine does; its modules are imported for the test alone."""
    monkeypatch.syspath_prepend(str(IMAGE / "setup"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield importlib.import_module("wishes").parse
    for name in ("wishes", "fault"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("old", "new", "said"), WRONG, ids=[f"{n}-{row[2][:20]}" for n, row in enumerate(WRONG)]
)
def test_what_is_wrong_is_named(
    parse: Callable[[bytes], Any], old: str, new: str, said: str
) -> None:
    assert SETUP.count(old) == 1
    assert parse(SETUP.encode()).issuer == "an appliance"
    with pytest.raises(Exception, match=re.escape(said)) as caught:
        parse(SETUP.replace(old, new).encode())
    assert type(caught.value).__name__ == "SetupError"
    assert str(caught.value).startswith("setup.toml: ")


def test_nothing_is_done_when_something_is_wrong(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    (ground.medium / "setup.toml").write_text(SETUP.replace("gateway", "dhcp"))
    code, text = ground.run()
    assert (code, text.count("\n"), "network.dhcp is not known" in text) == (1, 1, True)
    # but to write down the machine's own name
    made = [path for path in (ground.root / "data").rglob("*") if path.is_file()]
    assert [path.name for path in made] == ["machine-id"]
    assert not ground.export.exists()


def test_without_setup_toml_nothing_is_done(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    (ground.medium / "setup.toml").unlink()
    assert "there is no setup.toml" in ground.run()[1]
    (ground.medium / "setup.toml").symlink_to("/etc/hostname")
    assert "is no file" in ground.run()[1]
