"""The set-up of the machine: what it makes at the first start, and what a medium brings later."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from cryptography import x509

from appliance.service.settings import Settings
from tests.firmware.image.ground import SETUP, Ground
from tests.firmware.nft import refused_by_nft


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    """A machine that was never started."""
    return Ground(tmp_path)


def test_the_first_start_makes_keys_and_hands_out_the_public_ones(tmp_path: Path) -> None:
    ground = Ground(tmp_path, real=True)
    code, text = ground.run()
    assert (code, text.splitlines()) == (0, [
        "windhover-setup: making a certificate that signs itself",
        "windhover-setup: making the key that does unseal; its passphrase is encrypted by the disk",
        "windhover-setup: making the key that does attest; its passphrase is encrypted by the disk",
        "windhover-setup: beginning the log of attestations",
        "windhover-setup: no weights yet: seal them to export/unseal.pub.pem of the medium",
        "windhover-setup: machine done",
    ])  # fmt: skip
    assert {path.name for path in ground.export.iterdir()} == {
        "unseal.pub.pem", "attest.pub.pem", "verifier-lines.toml", "api.key", "tls.crt",
        "status.txt",
    }  # fmt: skip
    assert "keys: disk\n" in (ground.export / "status.txt").read_text()
    for role in ("unseal", "attest"):
        path = ground.root / f"etc/windhover/{role}.pem"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert "ENCRYPTED PRIVATE KEY" in path.read_text()
    # the log is whole, and the key that signed it is the one whose lines are handed out
    lines = (ground.export / "verifier-lines.toml").read_text()
    trust = tmp_path / "trust.toml"
    trust.write_text(f"version = 1\n\n{lines}")
    assert set(tomllib.loads(lines)["logs"]) == {"appliance"}
    checked = subprocess.run(
        [Path(sys.executable).with_name("windhover"), "log", "check",
         ground.root / "var/lib/windhover/log", "--anchor",
         ground.root / "var/lib/windhover-anchor/anchor", "--trust", trust, "--all-signatures"],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stderr
    # no passphrase is left where it was used, and the API key is on the medium alone
    assert [path.name for path in (ground.root / "run").rglob("*") if path.is_file()] == [
        "attest.pub.pem"
    ]
    secret = (ground.export / "api.key").read_bytes().strip()
    assert all(secret not in data for data in ground.contents().values())
    keys = json.loads(ground.read("var/lib/windhover/api-keys.json"))
    assert len(keys["keys"]) == 1


def test_the_configuration_is_one_that_the_service_accepts(ground: Ground) -> None:
    assert ground.run()[0] == 0
    made = Settings.parse(ground.read("etc/windhover/appliance.toml").encode())
    assert (made.mode, made.model.name, made.attest.issuer) == (
        "production",
        "tiny",
        "an appliance",
    )
    assert set(made.server.hosts) == {"ai.example", "10.0.2.15"}
    # a manifest that the image brings is asked for, and only then
    assert "[software]" not in ground.read("etc/windhover/appliance.toml")
    (ground.root / "etc/windhover/appliance.toml").unlink()
    manifest = ground.root / "usr/lib/windhover/software.cose"
    manifest.parent.mkdir(parents=True)
    manifest.write_bytes(b"signed")
    assert ground.run()[0] == 0
    made = Settings.parse(ground.read("etc/windhover/appliance.toml").encode())
    assert str(made.software.manifest) == "/usr/lib/windhover/software.cose"


def test_a_configuration_of_the_operator_stays(ground: Ground) -> None:
    own = ground.medium / "appliance.toml"
    own.write_text("# mine\n")
    assert ground.run()[0] == 0
    own.unlink()
    assert ground.run()[0] == 0
    assert ground.read("etc/windhover/appliance.toml") == "# mine\n"


def test_the_certificate_names_the_hosts_and_stays(ground: Ground) -> None:
    assert ground.run()[0] == 0
    first = (ground.export / "tls.crt").read_bytes()
    names = (
        x509.load_pem_x509_certificate(first)
        .extensions.get_extension_for_class(x509.SubjectAlternativeName)
        .value
    )
    assert names.get_values_for_type(x509.DNSName) == ["ai.example"]
    assert [str(a) for a in names.get_values_for_type(x509.IPAddress)] == ["10.0.2.15"]
    assert ground.run()[0] == 0
    assert (ground.export / "tls.crt").read_bytes() == first


def test_certificate_and_key_of_the_medium_belong_together(ground: Ground, tmp_path: Path) -> None:
    assert ground.run()[0] == 0
    own = ground.root / "data/nginx/tls"
    pair = {name: (own / f"server.{name}").read_bytes() for name in ("crt", "key")}
    (tmp_path / "x").mkdir()
    other = Ground(tmp_path / "x")
    assert other.run()[0] == 0
    (other.medium / "tls.crt").write_bytes(pair["crt"])
    code, text = other.run()
    assert (code, "belong together" in text) == (1, True)
    (other.medium / "tls.key").write_bytes((other.root / "data/nginx/tls/server.key").read_bytes())
    code, text = other.run()
    assert (code, "tls.key is not the key of tls.crt" in text) == (1, True)
    (other.medium / "tls.key").write_bytes(pair["key"])
    assert other.run()[0] == 0
    assert other.read("data/nginx/tls/server.crt").encode() == pair["crt"]
    assert len(list((other.root / "data/nginx").glob("tls-*"))) == 1


def test_weights_and_trust_come_with_a_later_medium(ground: Ground) -> None:
    assert ground.run()[0] == 0
    before = ground.contents()
    (ground.medium / "model.vqf").write_bytes(b"half")
    assert ground.run()[0] == 1
    assert ground.contents() == before
    (ground.medium / "model.vqf").write_bytes(b"whole weights")
    (ground.medium / "trust.toml").write_text("version = 1\n")
    code, text = ground.run()
    assert (code, "copying the weights, 13 bytes" in text) == (0, True)
    assert ground.read("srv/windhover/model.vqf") == "whole weights"
    assert ground.read("etc/windhover/verifier.toml").startswith("version = 1\n\n[keys.x]\n")
    assert "weights: installed" in (ground.export / "status.txt").read_text()
    changed = {name for name, data in ground.contents().items() if before.get(name) != data}
    assert changed == {
        "srv/windhover/model.vqf", "etc/windhover/trust.toml", "etc/windhover/verifier.toml"
    }  # fmt: skip
    # the same medium once more changes nothing
    before = ground.contents()
    assert ground.run() == (0, "windhover-setup: machine done\n")
    assert ground.contents() == before


def test_the_first_start_needs_a_medium_and_no_later_one_does(ground: Ground) -> None:
    away = ground.medium.rename(ground.root / "away")
    assert ground.run() == (
        1, "windhover-setup: machine failed: the first start needs the medium\n"
    )  # fmt: skip
    away.rename(ground.medium)
    assert ground.run()[0] == 0
    ground.medium.rename(away)
    assert ground.run()[0] == 0


def test_a_disk_of_another_machine_is_refused(ground: Ground) -> None:
    assert ground.run()[0] == 0
    (ground.root / "etc/machine-id").write_text("f" * 32 + "\n")
    code, text = ground.run()
    assert (code, "another id than its data disk" in text) == (1, True)


def test_a_log_that_was_used_is_never_begun_again(ground: Ground) -> None:
    assert ground.run()[0] == 0
    (ground.root / "data/system/log.lines").unlink()
    assert ground.run()[0] == 1
    assert ground.read("var/lib/windhover/log/0") == "log\n"


def test_a_tpm_that_is_wished_for_has_to_be_there(ground: Ground) -> None:
    (ground.medium / "setup.toml").write_text('keys = "tpm"\n' + SETUP)
    code, text = ground.run()
    assert (code, "there is none" in text) == (1, True)
    (ground.root / "dev/tpmrm0").touch()
    code, text = ground.run()
    assert code == 0
    assert "encrypted by the tpm" in text
    assert "keys: tpm\n" in (ground.export / "status.txt").read_text()
    assert ground.read("data/system/keys") == "tpm\n"


def test_clients_are_let_in_by_rules_that_nft_accepts(ground: Ground) -> None:
    assert ground.run()[0] == 0
    rules = ground.root / "data/nftables/10-windhover.nft"
    assert "clients4 { 10.0.2.0/24 }" in rules.read_text()
    assert refused_by_nft(rules.read_text()) == []
    assert refused_by_nft(rules.read_text().replace("clients4", "clients5")) != []


# Each program of the first start, as it is called: the power goes when it should begin, or when it
# has just ended and nothing that follows was written.
CALLS = ("keygen.*unseal", "keygen.*attest", "encrypt unseal", "encrypt attest", "log", "apikey")


@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.slow), "after"])
@pytest.mark.parametrize("call", CALLS)
def test_a_power_cut_is_made_good_by_the_next_start(ground: Ground, call: str, when: str) -> None:
    program, kept = ("systemd-creds" if call.startswith("encrypt") else "windhover"), {}
    for name in ("windhover", "systemd-creds"):
        kept[name] = (ground.programs / name).read_text()
    first, _, rest = call.partition(" ")
    pattern = f"*encrypt*--name={rest}*" if rest else f"{first.replace('.*', '*')}*"
    text = kept[program].replace("#!/bin/sh\n", "", 1)
    cut = f'case "$*" in {pattern}) kill -9 $PPID; exit 9 ;; esac\n'
    done = f"( {text} ) || exit 1\n{cut}" if when == "after" else f"{cut}{text}"
    ground.put(program, f"#!/bin/sh\n{done}")
    assert ground.run()[0] == -9
    ground.put(program, kept[program])
    # passphrases were in memory
    for path in sorted((ground.root / "run").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    assert ground.run()[0] == 0
    for role in ("unseal", "attest"):
        name, secret = ground.read(f"etc/windhover/credentials/{role}.cred").split()
        assert name == role
        assert ground.read(f"etc/windhover/{role}.pem") == f"key under {secret}\n"
    assert ground.read("var/lib/windhover/api-keys.json") == "entry\n"
    assert ground.read("var/lib/windhover/log/0") == "log\n"
    assert "api.key" in {path.name for path in ground.export.iterdir()}
