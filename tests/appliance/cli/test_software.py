"""`windhover software`: the list, its signature, and what differs from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from appliance import software
from appliance.cli.main import run
from appliance.software_list import parse_list
from crypto.cose import decode_sign1
from crypto.labels import SOFTWARE_LIST
from crypto.sm3 import sm3
from crypto.software import decode_manifest
from tests import altered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.appliance.cli.workshop import Workshop

PAST = 'not_after = "2001-01-01T00:00:00Z"'


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Let the software be three files in a folder, and prepared kernels in another."""
    folder = tmp_path / "software" / "appliance"
    folder.mkdir(parents=True)
    for name in ("a.py", "b.py", "c.py"):
        (folder / name).write_text(name)
        (folder / name).chmod(0o644)

    def places(kernels: Path | None = None) -> Iterator[software.Place]:
        yield from software.tree("app/appliance", folder)
        if kernels is not None:
            yield from software.tree("kernels", kernels)

    monkeypatch.setattr(software, "places", places)
    software.software_files.cache_clear()
    yield folder
    software.software_files.cache_clear()


@pytest.fixture
def signed(shop: Workshop, app: Path) -> Workshop:
    """A workshop with a signed list of these files, and a trust file with the key `vendor`."""
    shop.key("soft", "software")
    shop.trust(keys={"soft": "software"})
    shop.done("software", "list", "--out", shop.path("list"))
    sign(shop)
    return shop


def sign(shop: Workshop, *words: object, key: str = "soft") -> dict[str, object]:
    """Sign the list."""
    return shop.done(
        "software", "sign", shop.path("list"), shop.path("out.cose"), "--version", "1.2.3",
        "--key", shop.path(f"{key}.pem"), *words,
    ).value  # fmt: skip


def check(shop: Workshop, *words: object):  # type: ignore[no-untyped-def]
    """Compare, reading the files anew."""
    software.software_files.cache_clear()
    trust = shop.path("trust.toml")
    return shop("software", "check", *words, "--manifest", shop.path("out.cose"), "--trust", trust)


def test_the_list_has_every_file_and_the_kernels_of_all_targets(
    shop: Workshop, app: Path, tmp_path: Path
) -> None:
    for target in ("avx2-x86-64-v3-00", "avx512-x86-64-v4-00"):
        folder = tmp_path / "kernels" / target
        folder.mkdir(parents=True)
        (folder / "k.nbc").write_bytes(target.encode())
    words = ("--kernels", tmp_path / "kernels")
    value = shop.done("software", "list", *words, "--out", shop.path("list")).value
    files = parse_list(shop.path("list").read_bytes())
    assert [each.path for each in files] == [
        *(f"app/appliance/{name}.py" for name in "abc"),
        "kernels/avx2-x86-64-v3-00/k.nbc",
        "kernels/avx512-x86-64-v4-00/k.nbc",
    ]
    assert value["files"] == 5
    assert value["kernels"] == ["avx2-x86-64-v3", "avx512-x86-64-v4"]
    assert value["bytes"] == sum(each.length_bytes for each in files)
    assert shop("software", "list", "--out", shop.path("list")).exit_code == 2  # it is there
    missing = shop("software", "list", "--kernels", tmp_path / "no", "--out", shop.path("other"))
    assert (missing.exit_code, shop.path("other").exists()) == (2, False)


def test_a_file_that_no_list_can_have_is_refused(shop: Workshop, app: Path) -> None:
    (app / "line\nend.py").touch()
    result = shop("software", "list", "--out", shop.path("list"))
    assert (result.exit_code, result.value["kind"]) == (3, "UnavailableError")
    assert not shop.path("list").exists()


def test_what_is_signed_is_what_was_listed(signed: Workshop, app: Path) -> None:
    manifest = decode_manifest(
        decode_sign1(signed.path("out.cose").read_bytes(), max_bytes=4096).payload
    )
    assert manifest.name == "windhover 1.2.3"
    entries = b""
    for name in ("a.py", "b.py", "c.py"):
        path = f"app/appliance/{name}".encode()
        entries += len(path).to_bytes(4, "little") + path + (0o644).to_bytes(4, "little")
        entries += (4).to_bytes(8, "little") + sm3(name.encode())
    assert manifest.software_digest == sm3(SOFTWARE_LIST + entries)
    assert (manifest.num_files, manifest.num_bytes, manifest.kernels) == (3, 12, ())
    assert check(signed).exit_code == 0
    result = check(signed, signed.path("list"))
    assert (result.exit_code, result.value["same"], result.value["signed_by"]) == (0, True, "soft")


@pytest.mark.parametrize(
    ("alter", "kind", "name"),
    [
        (lambda app: (app / "a.py").write_text("A.py"), "changed", "a.py"),
        (lambda app: (app / "b.py").chmod(0o755), "modes", "b.py"),
        (lambda app: (app / "c.py").unlink(), "missing", "c.py"),
        (lambda app: (app / "d.py").touch(), "added", "d.py"),
    ],
)
def test_what_differs_is_named(
    signed: Workshop, app: Path, alter: Callable[[Path], object], kind: str, name: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    alter(app)
    plain = check(signed)
    assert (plain.exit_code, plain.reason) == (1, "software-differs")
    result = check(signed, signed.path("list"))
    assert (result.exit_code, result.reason) == (1, "software-differs")
    found = {each: paths for each, paths in result.value["differences"].items() if paths}
    assert found == {kind: [f"app/appliance/{name}"]}
    words = ["software", "check", signed.path("list"), "--manifest", signed.path("out.cose"),
             "--trust", signed.path("trust.toml")]  # fmt: skip
    assert run([*map(str, words)]) == 1
    assert capsys.readouterr().out.split() == [kind, f"app/appliance/{name}"]


def test_each_bad_manifest_is_refused(signed: Workshop) -> None:
    good = signed.path("out.cose").read_bytes()
    cases = {
        "software-bad-signature": altered.last_byte(good),
        "sign1-tag": good[1:],
        "trailing-bytes": good + b"\0",
        "max-bytes": good.ljust(4097, b"\0"),
    }
    for reason, data in cases.items():
        signed.path("out.cose").write_bytes(data)
        result = check(signed)
        assert result.exit_code == 1
        assert reason in (result.reason, result.value.get("rule"))
    signed.path("out.cose").write_bytes(good)
    signed.trust(keys={"soft": "software"}, key_lines={"soft": PAST})
    assert check(signed).reason == "software-key-expired"
    signed.key("other", "software")
    signed.trust(keys={"other": "software"})
    assert check(signed).reason == "software-unknown-signer"
    signed.trust(keys={"soft": "weights"})
    assert check(signed).reason == "software-unknown-signer"
    signed.path("out.cose").unlink()
    assert check(signed).exit_code == 2


def test_a_revoked_key_does_not_count(signed: Workshop) -> None:
    signed.key("revoke", "revoke")
    listed = signed.path("revoked")
    signed.done("revoke", listed, "--key", signed.path("revoke.pem"), "--sequence", 1,
                "--revoke-key", signed.public("soft"))  # fmt: skip
    signed.trust(keys={"soft": "software", "revoke": "revoke"})
    assert check(signed).exit_code == 0
    assert check(signed, "--revocations", listed).reason == "software-key-revoked"


def test_the_list_of_another_release_is_refused(signed: Workshop, app: Path) -> None:
    (app / "a.py").write_text("more")
    signed.done("software", "list", "--out", signed.path("list2"))
    (app / "b.py").write_text("more")
    software.software_files.cache_clear()
    signed.done("software", "list", "--out", signed.path("list3"))
    assert check(signed, signed.path("list3")).reason == "software-list-differs"
    signed.path("list3").write_bytes(signed.path("list").read_bytes() + b"x")
    assert check(signed, signed.path("list3")).value["rule"] == "list-end"


def test_only_a_software_key_signs(signed: Workshop) -> None:
    words = ("software", "sign", signed.path("list"), signed.path("new"), "--version", "1.0.0")
    signed.key("weights", "weights")
    result = signed(*words, "--key", signed.path("weights.pem"))
    assert (result.exit_code, result.reason) == (2, "role")
    signed.key("locked", "software", passphrase=b"a passphrase")
    secret = signed.secret("secret", b"a passphrase\n")
    assert not signed.path("new").exists()
    signed.done(*words, "--key", signed.path("locked.pem"), "--passphrase-file", secret)
    key = ("--key", signed.path("soft.pem"))
    assert signed(*words, *key).exit_code == 2  # it is there
    assert signed(*words, *key, "--force", "--product", "No").exit_code == 2
    assert signed(*words[:-1], "1.0", *key, "--force").exit_code == 2
    signed.path("list").write_text("not a list\n")
    assert signed(*words, *key, "--force").value["rule"] == "list-head"
