"""All files of firmware/ agree about where things are, and README.md about where they go."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest

from appliance.service.settings import Settings
from tests.firmware.tools import FIRMWARE, text_of
from tests.firmware.units import settings, unit

CONFIGURATION: dict[str, Any] = tomllib.loads(text_of("etc/appliance.toml"))
SERVICE = settings(unit("windhover.service"))
CHECK = settings(unit("windhover-check.service"))
NOT_INSTALLED = {"handbook", "image", "wheelhouse", "__init__.py", "__pycache__"}
WRITABLE = (
    *(f"/var/lib/{name}/" for name in SERVICE["StateDirectory"].split()),
    f"/var/cache/{SERVICE['CacheDirectory']}/",
    f"/var/log/{SERVICE['LogsDirectory']}/",
    f"/run/{SERVICE['RuntimeDirectory']}/",
)


def own_settings() -> Settings:
    """Return the configuration with names in place of those in capitals."""
    text = text_of("etc/appliance.toml")
    for capitals, name in (("MODEL", "model"), ("ISSUER", "an appliance"), ("AI.EXAMPLE", "ai.e")):
        assert text.count(f'"{capitals}"') == 1
        text = text.replace(capitals, name)
    return Settings.parse(text.encode())


def test_the_service_accepts_its_configuration() -> None:
    made = own_settings()
    assert made.mode == "production"
    assert made.server.is_unix
    # the primary group of the unit is that of the socket: it need not be given, which is refused
    assert made.server.unix_group == ""
    assert made.server.unix_mode == "0660"


def test_what_is_written_lies_in_folders_of_the_unit() -> None:
    model, attest, server = (CONFIGURATION[name] for name in ("model", "attest", "server"))
    written = (
        model["floors"], attest["log"], attest["anchor"], CONFIGURATION["log"]["file"],
        server["listen"].removeprefix("unix:"),
    )  # fmt: skip
    for path in written:
        assert path.startswith(WRITABLE), path
    only_read = (model["file"], model["trust"], model["unseal_key"], model["kernel_cache"],
                 attest["key"])  # fmt: skip
    for path in only_read:
        assert not path.startswith(WRITABLE), path
    assert attest["anchor"].split("/")[:4] != attest["log"].split("/")[:4]  # another volume


def test_secrets_come_from_credentials_of_the_unit() -> None:
    loaded = {entry.partition(":")[0] for entry in SERVICE["LoadCredentialEncrypted"].split()}
    named = {
        CONFIGURATION["model"]["unseal_key_passphrase"], CONFIGURATION["attest"]["key_passphrase"]
    }  # fmt: skip
    assert {f"credential:{name}" for name in loaded} == named
    assert "credential:unseal" in CHECK["ExecStart"]


def test_the_check_reads_what_the_service_uses() -> None:
    model, attest = CONFIGURATION["model"], CONFIGURATION["attest"]
    for path in (model["file"], model["trust"], model["floors"], model["unseal_key"],
                 attest["log"], attest["anchor"]):  # fmt: skip
        assert path in CHECK["ExecStart"], path
    assert f"WINDHOVER_KERNEL_CACHE={model['kernel_cache']} " in CHECK["Environment"]
    # and it has no folder that it could write
    assert not {"StateDirectory", "CacheDirectory", "LogsDirectory", "ReadWritePaths"} & set(CHECK)


def test_nginx_and_the_service_agree() -> None:
    nginx = text_of("nginx/nginx.conf")
    assert f"server {CONFIGURATION['server']['listen']} " in nginx
    made = own_settings()
    assert "client_max_body_size 1m;" in nginx
    assert made.limits.body_bytes == 1 << 20

    def seconds(name: str) -> list[int]:
        return [int(value) for value in re.findall(rf"\s{name} (\d+)s;", nginx)]

    assert max(seconds("keepalive_timeout")) < made.server.idle_s
    assert seconds("proxy_read_timeout")[0] > made.limits.request_s
    assert seconds("proxy_read_timeout")[0] > made.server.ping_s
    stop = int(SERVICE["TimeoutStopSec"].removesuffix("s"))
    assert stop >= made.server.drain_s + 20
    assert "user www-data;" in nginx
    assert re.search(r"^m www-data +windhover-socket$", text_of("etc/sysusers.conf"), re.MULTILINE)


def test_the_log_of_attestations_is_no_log_that_is_rotated() -> None:
    rotated = re.findall(r"^(/\S+) \{$", text_of("etc/logrotate.conf"), re.MULTILINE)
    assert rotated == [CONFIGURATION["log"]["file"]]
    lines = text_of("etc/tmpfiles.conf").splitlines()
    for line in lines:
        if line and not line.startswith("#"):
            kind, path, *_, age = line.split()
            assert age == "-", f"{path} is not cleaned by age"
            assert kind in {"d", "z"}, f"{path} is not emptied, removed or written"


@pytest.mark.parametrize("name", sorted(
    path.relative_to(FIRMWARE).as_posix()
    for path in FIRMWARE.rglob("*") if path.is_file() and path.name != "README.md"
    and not NOT_INSTALLED & {path.name, *path.relative_to(FIRMWARE).parts}
))  # fmt: skip
def test_the_readme_says_where_a_file_goes(name: str) -> None:
    (row,) = re.findall(rf"^\| `{re.escape(name)}` \| `(/[^`]+)` \|", text_of("README.md"),
                        re.MULTILINE)  # fmt: skip
    # and the file says so itself where it has comments at its beginning
    head = text_of(name)[:1200]
    if "/etc/" in head.splitlines()[0]:
        assert row in head
