"""One table: each command, each way in which it can end, and the code that a script sees."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.appliance.cli.workshop import Workshop, line_table

SIGN = "--line demo --release 1"
TABLE = {
    # keys and lists
    "keygen {new} --role weights --no-passphrase": 0,
    "keygen {new} --role weights": 2,
    "keygen {vendor} --role weights --no-passphrase": 2,
    "keygen {none}/new --role weights --no-passphrase": 2,
    "keygen {folder} --role weights --no-passphrase": 2,
    "trust {trust}": 0,
    "trust {vendor}": 1,
    "trust {none}": 2,
    "trust {folder}": 2,
    "revoke {new} --key {revoke} --sequence 1": 0,
    "revoke {new} --key {revoke} --sequence 1 --revoke-model {signed}": 0,
    "revoke {new} --key {revoke} --sequence 1 --revoke-model {damaged_head}": 1,
    "revoke {new} --key {revoke} --sequence 1 --add-to {trust}": 1,
    "revoke {new} --key {vendor} --sequence 1": 2,
    "revoke {new} --key {none} --sequence 1": 2,
    "revoke {trust} --key {revoke} --sequence 1": 2,
    # making signed and sealed files
    f"sign {{plain}} --key {{vendor}} {SIGN}": 0,
    f"sign {{sealed}} --key {{vendor}} {SIGN} --unseal-key {{appliance}}": 0,
    f"sign {{damaged}} --key {{vendor}} {SIGN}": 1,
    f"sign {{damaged_head}} --key {{vendor}} {SIGN}": 1,
    f"sign {{trust}} --key {{vendor}} {SIGN}": 1,
    f"sign {{plain}} --key {{appliance}} {SIGN}": 2,
    f"sign {{plain}} --key {{readable}} {SIGN}": 2,
    f"sign {{plain}} --key {{trust}} {SIGN}": 2,
    f"sign {{none}} --key {{vendor}} {SIGN}": 2,
    f"sign {{sealed}} --key {{vendor}} {SIGN}": 2,
    f"sign {{folder}} --key {{vendor}} {SIGN}": 1,
    "seal {plain} {new} --to {appliance_pub}": 0,
    "seal {signed} {new} --to {appliance_pub} --to {outsider_pub}": 0,
    "seal {damaged} {new} --to {appliance_pub}": 1,
    "seal {plain} {new} --to {vendor_pub}": 2,
    "seal {plain} {signed} --to {appliance_pub}": 2,
    "seal {plain} {folder} --to {appliance_pub}": 2,
    "seal {none} {new} --to {appliance_pub}": 2,
    "seal {plain} {none}/new --to {appliance_pub}": 2,
    "rewrap {sealed} --key {appliance} --add {outsider_pub}": 0,
    "rewrap {sealed_damaged_head} --key {appliance} --add {outsider_pub}": 1,
    "rewrap {sealed_damaged} --key {appliance} --to {outsider_pub} --new-key": 1,
    "rewrap {sealed} --key {outsider} --add {outsider_pub}": 2,
    "rewrap {sealed} --add {outsider_pub}": 2,
    "rewrap {signed} --key {appliance} --add {outsider_pub}": 2,
    "rewrap {none} --key {appliance} --add {outsider_pub}": 2,
    # looking at files
    "inspect {signed}": 0,
    "inspect {sealed}": 0,
    "inspect {sealed_damaged_head}": 0,
    "inspect {sealed} --key {appliance}": 0,
    "inspect {damaged_head}": 1,
    "inspect {sealed_damaged_head} --key {appliance}": 1,
    "inspect {sealed} --key {outsider}": 2,
    "inspect {none}": 2,
    "check {signed} --trust {trust}": 0,
    "check {signed_sealed} --trust {trust} --key {appliance}": 0,
    "check {plain} --dev": 0,
    "check {plain} --trust {trust}": 1,
    "check {plain}": 1,
    "check {damaged} --dev": 1,
    "check {sealed_damaged} --dev --key {appliance}": 1,
    "check {signed} --trust {vendor}": 1,
    "check {signed} --trust {trust} --revocations {trust}": 1,
    "check {signed_sealed} --trust {trust}": 2,
    "check {signed_sealed} --trust {trust} --key {outsider}": 2,
    "check {signed} --trust {none}": 2,
    "check {signed} --trust {trust} --dev": 2,
    "check {signed} --trust {trust} --floors {trust}/floors": 3,
    # refused before anything is loaded; tests/appliance/cli/test_generate.py has the rest
    "generate {plain} --prompt x": 1,
    "generate {plain} --prompt x --trust {trust}": 1,
    "generate {signed_sealed} --prompt x --trust {trust}": 2,
    "generate {signed} --prompt x --trust {trust} --floors {trust}/floors": 3,
}


def damage(path: Path, offset: int) -> Path:
    """Return a copy of a file in which one bit differs."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 4
    copy = path.with_name(f"{path.stem}-at-{abs(offset)}")
    copy.write_bytes(data)
    return copy


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Make the files that the table speaks of."""
    shop = Workshop(tmp_path_factory.mktemp("made"))
    shop.key("vendor", "weights")
    shop.key("appliance", "unseal")
    for name, role in (("outsider", "unseal"), ("revoke", "revoke")):
        shop.key(name, role)
    shop.key("readable", "weights").chmod(0o640)
    plain, signed = shop.weights("plain.vqf"), shop.weights("signed.vqf")
    sealed, signed_sealed = shop.path("sealed.vqf"), shop.path("signed-sealed.vqf")
    shop.done("sign", signed, "--key", shop.path("vendor.pem"), *SIGN.split())
    for source, target in ((plain, sealed), (signed, signed_sealed)):
        shop.done("seal", source, target, "--to", shop.public("appliance"))
    pairs = ("vendor", "appliance", "outsider", "revoke", "readable")
    return {
        **{name: shop.path(f"{name}.pem") for name in pairs},
        **{f"{name}_pub": shop.public(name) for name in pairs},
        "plain": plain,
        "signed": signed,
        "sealed": sealed,
        "signed_sealed": signed_sealed,
        "damaged": damage(plain, -5000),
        "damaged_head": damage(plain, 140),
        "sealed_damaged": damage(sealed, -5000),
        "sealed_damaged_head": damage(sealed, 16_560),
        "trust": shop.trust(line_table("demo", "vendor"), keys={"vendor": "weights"}),
        "new": shop.path("new"),
        "none": shop.path("nonesuch"),
        "folder": shop.folder,
    }


@pytest.fixture
def names(made: dict[str, Path], tmp_path: Path) -> dict[str, Path]:
    """Return copies of them for one test."""
    shutil.copytree(made["folder"], tmp_path, dirs_exist_ok=True)
    return {name: tmp_path / path.relative_to(made["folder"]) for name, path in made.items()}


@pytest.mark.parametrize("line", TABLE)
def test_the_code_and_one_line(names: dict[str, Path], line: str) -> None:
    shop = Workshop(names["folder"])
    result = shop(*(word.format(**names) for word in line.split()))
    assert result.exit_code == TABLE[line], result.err
    if result.exit_code:
        (said,) = [text for text in result.err.splitlines() if ": --dev: " not in text]
        assert said.startswith("windhover: ")
        assert result.value["error"]
        assert not shop.path("new").exists()
