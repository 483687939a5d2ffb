from __future__ import annotations

import base64
import os
import stat

import pytest

from crypto import pbes2
from crypto.errors import WriteError
from crypto.keys import ROLES, load_public_key, write_private_key, write_public_key
from crypto.pem import encode_pem
from crypto.pkcs8 import encode_pkcs8
from crypto.sm2 import sign, verify
from tests.crypto.key_case import KEY, PASSPHRASE, PLAIN, pem, private, refused, saved
from tests.crypto.sm2_case import key_of


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory):
    """The bytes of KEY encrypted under PASSPHRASE."""
    path = tmp_path_factory.mktemp("encrypted") / "key.pem"
    write_private_key(path, KEY, role="unseal", passphrase=PASSPHRASE)
    return path.read_bytes()


@pytest.mark.parametrize("role", ROLES)
def test_round_trip_of_every_role(tmp_path, role):
    write_private_key(tmp_path / "key", KEY, role=role, passphrase=None)
    write_public_key(tmp_path / "public", KEY.public_key, role=role)
    key = private(tmp_path / "key", role=role)
    assert key.public_key == KEY.public_key
    verify(KEY.public_key, b"m", sign(key, b"m"))
    assert load_public_key(tmp_path / "public", role=role) == KEY.public_key
    assert load_public_key((tmp_path / "public").read_bytes(), role=None) == KEY.public_key
    assert (tmp_path / "key").read_text().startswith(f"Windhover-Key-Role: {role}\n-----BEGIN ")


def test_encrypted_round_trip(tmp_path, encrypted):
    path = saved(tmp_path, encrypted)
    asked = []

    def ask():
        asked.append(1)
        return bytearray(PASSPHRASE)

    assert private(path, ask).public_key == KEY.public_key
    assert private(path, memoryview(PASSPHRASE), "unseal").public_key == KEY.public_key
    assert asked == [1]
    assert encode_pkcs8(KEY)[36:68] not in base64.b64decode(b"".join(encrypted.split(b"\n")[2:-2]))


def test_a_plain_key_asks_for_no_passphrase(tmp_path):
    def ask():
        pytest.fail("asked")

    assert private(saved(tmp_path, PLAIN), ask).public_key == KEY.public_key


def test_wrong_passphrases(tmp_path, encrypted):
    path = saved(tmp_path, encrypted)
    for wrong in (b"wrong", b"", PASSPHRASE + b"\n"):
        reason, line = refused(private, path, wrong)
        assert reason == "passphrase"
        assert str(path) in line
    assert refused(private, path, None)[0] == "encrypted"


def test_an_altered_encrypted_key_is_refused(tmp_path, encrypted):
    lines = encrypted.split(b"\n")
    content = bytearray(base64.b64decode(b"".join(lines[2:-2])))
    content[-20] ^= 1
    reason, _ = refused(
        private, saved(tmp_path, pem("ENCRYPTED PRIVATE KEY", bytes(content))), PASSPHRASE
    )
    assert reason == "passphrase"


def test_a_wrong_passphrase_whose_padding_is_right(tmp_path, encrypted, monkeypatch):
    # one in 256 wrong passphrases
    monkeypatch.setattr("crypto.keys.decrypt_pkcs8", lambda data, passphrase: b"\x00" * 100)
    assert refused(private, saved(tmp_path, encrypted), b"wrong")[0] == "passphrase"


@pytest.mark.parametrize("length", [0, 1025])
def test_lengths_of_passphrases(tmp_path, length):
    with pytest.raises(ValueError, match="passphrase"):
        write_private_key(tmp_path / "key", KEY, role="unseal", passphrase=b"p" * length)
    assert list(tmp_path.iterdir()) == []


def test_written_iterations_are_enough():
    assert pbes2.WRITTEN_ITERATIONS >= 600_000


def test_modes_of_written_files(tmp_path):
    before = os.umask(0)
    try:
        write_private_key(tmp_path / "key", KEY, role="unseal", passphrase=None)
        write_public_key(tmp_path / "public", KEY.public_key, role="unseal")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "public").stat().st_mode) == 0o644


@pytest.mark.parametrize("kind", ["file", "symlink", "dangling", "folder"])
def test_nothing_is_overwritten(tmp_path, kind):
    target, other = tmp_path / "key", tmp_path / "other"
    if kind == "file":
        target.write_text("precious")
    elif kind == "folder":
        target.mkdir()
    else:
        target.symlink_to(other)
        if kind == "symlink":
            other.write_text("precious")
    before = sorted(tmp_path.iterdir())
    for write in (
        lambda: write_private_key(target, KEY, role="unseal", passphrase=None),
        lambda: write_public_key(target, KEY.public_key, role="unseal"),
    ):
        with pytest.raises(WriteError, match="exists"):
            write()
    assert sorted(tmp_path.iterdir()) == before
    if kind in ("file", "symlink"):
        assert target.read_text() == "precious"


def test_no_folder_to_write_to(tmp_path):
    with pytest.raises(WriteError):
        write_private_key(tmp_path / "absent" / "key", KEY, role="unseal", passphrase=None)


def test_a_wiped_key_is_not_written(tmp_path):
    key = key_of(5)
    key.wipe()
    with pytest.raises(ValueError, match="wiped"):
        write_private_key(tmp_path / "key", key, role="unseal", passphrase=None)
    assert list(tmp_path.iterdir()) == []


def test_unknown_roles_are_not_written(tmp_path):
    for role in ("", "admin", "weights\nx", "Weights"):
        with pytest.raises(ValueError, match="roles"):
            write_public_key(tmp_path / "key", KEY.public_key, role=role)


def test_roles(tmp_path):
    path = saved(tmp_path, encode_pem("PRIVATE KEY", encode_pkcs8(KEY), "weights"))
    assert private(path, role="weights").public_key == KEY.public_key
    assert private(path).public_key == KEY.public_key
    assert private(saved(tmp_path, PLAIN), role="unseal").public_key == KEY.public_key
    path = saved(tmp_path, encode_pem("PRIVATE KEY", encode_pkcs8(KEY), "weights"))
    assert refused(private, path, role="unseal")[0] == "role"
    public = encode_pem("PUBLIC KEY", KEY.public_key.spki_der(), "attest")
    assert refused(load_public_key, public, role="weights")[0] == "role"
    unknown = encode_pem("PUBLIC KEY", KEY.public_key.spki_der(), "admin")
    assert refused(load_public_key, unknown, role=None)[0] == "role"


ROLE_LINES = {
    "twice": b"Windhover-Key-Role: weights\nWindhover-Key-Role: weights\n",
    "two": b"Windhover-Key-Role: weights\nWindhover-Key-Role: unseal\n",
    "no space": b"Windhover-Key-Role:weights\n",
    "other case": b"windhover-key-role: weights\n",
    "no value": b"Windhover-Key-Role\n",
}


@pytest.mark.parametrize("line", ROLE_LINES.values(), ids=ROLE_LINES)
def test_malformed_lines_with_a_role(tmp_path, line):
    assert refused(private, saved(tmp_path, line + PLAIN))[0] == "format"


def test_explanations_before_the_block_are_ignored(tmp_path):
    text = b"Bag Attributes\r\n    friendlyName: signer\r\n\r\nWindhover-Key-Role: weights\r\n"
    path = saved(tmp_path, text + PLAIN.replace(b"\n", b"\r\n"))
    assert private(path, role="weights").public_key == KEY.public_key
    assert refused(private, path, role="unseal")[0] == "role"


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o604, 0o601, 0o620])
def test_modes_that_let_others_in(tmp_path, mode):
    reason, line = refused(private, saved(tmp_path, PLAIN, mode))
    assert reason == "mode"
    assert "chmod 600" in line


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_modes_that_do_not(tmp_path, mode):
    assert private(saved(tmp_path, PLAIN, mode)).public_key == KEY.public_key


def test_another_owner(tmp_path, monkeypatch):
    path = saved(tmp_path, PLAIN)
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert refused(private, path)[0] == "owner"


def test_what_is_no_file(tmp_path):
    path = saved(tmp_path, PLAIN)
    (tmp_path / "link").symlink_to(path)
    assert refused(private, tmp_path / "link")[0] == "symlink"
    assert refused(private, tmp_path)[0] == "kind"
    assert refused(private, tmp_path / "absent")[0] == "missing"
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert refused(private, tmp_path / "pipe")[0] == "kind"
    assert refused(load_public_key, tmp_path / "pipe", role=None)[0] == "kind"
    assert refused(load_public_key, tmp_path, role=None)[0] == "kind"
    assert refused(load_public_key, tmp_path / "absent", role=None)[0] == "missing"
    assert refused(load_public_key, path / "below", role=None)[0] == "unreadable"


def test_sizes(tmp_path):
    assert private(saved(tmp_path, b"x" * (65_536 - len(PLAIN) - 1) + b"\n" + PLAIN)).public_key
    for content in (b"", b"x" * (65_536 - len(PLAIN)) + b"\n" + PLAIN):
        assert refused(private, saved(tmp_path, content))[0] == "size"
        assert refused(load_public_key, saved(tmp_path, content), role=None)[0] == "size"
