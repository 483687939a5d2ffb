"""The image itself, built twice: the same bytes, no key, no way in. Only root builds it."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.firmware.image.ground import IMAGE
from tests.firmware.tools import FIRMWARE

pytestmark = pytest.mark.slow

SAME = ("root.img", "roothash", "initrd.img", "vmlinuz", "cmdline", "windhover.efi",
        "software.list", "packages.txt")  # fmt: skip
_KEY = re.compile(
    rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----\s[A-Za-z0-9+/=\s:,.-]{40,}?-----END"
)


_SOURCES = ("appliance", "crypto", "engine", "firmware", "he_chain", "simd", "verifier",
            "pyproject.toml", "requirements.lock")  # fmt: skip


def snapshot(folder: Path) -> Path:
    """Copy what an image is made of to a place of its own, so that no path and no edit matters."""
    folder.mkdir()
    for name in _SOURCES:
        source = FIRMWARE.parent / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder)
    return folder


def build(sources: Path, folder: Path, python: Path) -> Path:
    """Build an image, with kernels that are compiled anew."""
    settings = {
        "WINDHOVER_IMAGE_CACHE": str(FIRMWARE.parent / ".cache/image"), "PYTHON": str(python)
    }  # fmt: skip
    done = subprocess.run(
        [sources / "firmware/image/build", folder, "--no-cache"],
        check=False, capture_output=True, text=True, env=os.environ | settings,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sources twice, at two paths."""
    if os.geteuid() != 0:
        pytest.skip("only root builds an image")
    for program in ("mmdebstrap", "mksquashfs", "veritysetup", "unsquashfs"):
        if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
            pytest.skip(f"{program} is not here: `make boot-tools` installs it")
    folder = tmp_path_factory.mktemp("sources")
    return snapshot(folder / "one"), snapshot(folder / "another-name")


@pytest.fixture(scope="module")
def image(copies: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image."""
    return build(copies[0], tmp_path_factory.mktemp("image"), Path(sys.executable))


@pytest.fixture(scope="module")
def rootfs(image: Path) -> Iterator[Path]:
    """Its files."""
    folder = image / "files"
    subprocess.run(
        ["/usr/bin/unsquashfs", "-no-progress", "-quiet", "-d", folder, image / "root.img"],
        check=True, capture_output=True,
    )  # fmt: skip
    yield folder
    shutil.rmtree(folder)


def test_two_builds_have_one_root_hash(
    copies: tuple[Path, Path], image: Path, tmp_path: Path
) -> None:
    # pip writes the place of its interpreter into what it installs
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "python"], check=True)
    again = build(copies[1], tmp_path / "again", tmp_path / "python/bin/python")
    different = [n for n in SAME if (image / n).read_bytes() != (again / n).read_bytes()]
    assert different == []


def test_the_hash_tree_covers_the_root(image: Path, tmp_path: Path) -> None:
    roothash = (image / "roothash").read_text().strip()
    (offset,) = re.findall(r"windhover\.verity=(\d+)", (image / "cmdline").read_text())
    assert f"windhover.roothash={roothash} " in (image / "cmdline").read_text()

    def verified(root: Path) -> bool:
        words = ["veritysetup", "verify", root, root, roothash, f"--hash-offset={offset}"]
        path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
        return subprocess.run(
            words, check=False, capture_output=True, env=os.environ | {"PATH": path}
        ).returncode == 0  # fmt: skip

    assert verified(image / "root.img")
    copy = tmp_path / "root.img"
    shutil.copy(image / "root.img", copy)
    with copy.open("r+b") as file:
        file.seek(int(offset) // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    assert not verified(copy)


def test_no_key_and_no_secret_is_in_it(rootfs: Path) -> None:
    files = [p for p in rootfs.rglob("*") if not p.is_symlink() and p.is_file()]
    named = [
        path for path in files
        if path.name in {"credential.secret", "random-seed"} or "ssh_host" in path.name
        or path.suffix in {".key", ".cred", ".p12", ".pfx"}
    ]  # fmt: skip
    assert named == []
    assert [path for path in files if _KEY.search(path.read_bytes())] == []
    assert (rootfs / "etc/machine-id").read_bytes() == b""
    for name in ("etc/windhover", "srv/windhover", "var/lib/windhover", "var/log", "data", "home"):
        folder = rootfs / name
        assert not folder.exists() or list(folder.iterdir()) == [], name


def test_a_private_key_is_seen() -> None:
    made = ec.generate_private_key(ec.SECP256R1())
    for form in (serialization.PrivateFormat.PKCS8, serialization.PrivateFormat.TraditionalOpenSSL):
        for protection in (
            serialization.NoEncryption(), serialization.BestAvailableEncryption(b"secret")
        ):  # fmt: skip
            pem = made.private_bytes(serialization.Encoding.PEM, form, protection)
            assert _KEY.search(b"text\n" + pem)
    assert not _KEY.search(b"-----BEGIN PRIVATE KEY-----\0-----END PRIVATE KEY-----")


def test_nobody_gets_in(rootfs: Path) -> None:
    for line in (rootfs / "etc/shadow").read_text().splitlines():
        assert line.split(":")[1] == "!*", line
    for line in (rootfs / "etc/passwd").read_text().splitlines():
        assert line.endswith(":/usr/sbin/nologin"), line
    for name in ("login", "su", "sudo", "passwd", "bash", "agetty", "sulogin", "apt-get", "dpkg",
                 "sshd", "perl", "pip", "pip3", "gcc", "curl", "wget"):  # fmt: skip
        assert [folder for folder in ("bin", "sbin", "lib/windhover/venv/bin")
                if (rootfs / "usr" / folder / name).exists()] == [], name  # fmt: skip
    setuid = [
        path for path in rootfs.rglob("*")
        if not path.is_symlink() and path.is_file() and path.stat().st_mode & 0o6000
    ]  # fmt: skip
    assert setuid == []
    for unit in (IMAGE / "masked").read_text().splitlines():
        if not unit.startswith("#"):
            assert (rootfs / "etc/systemd/system" / unit).readlink() == Path("/dev/null"), unit


def test_the_files_of_firmware_are_where_the_readme_says(rootfs: Path) -> None:
    rows = re.findall(r"^\| `([^`]+)` \| `(/[^`]+)` \|",
                      (FIRMWARE / "README.md").read_text(), re.MULTILINE)  # fmt: skip
    assert len(rows) > 15
    # what the machine fills in is kept as a template, and the operator's choice of three, too
    moved = {"/etc/windhover/appliance.toml": "/usr/share/windhover/appliance.toml"}
    for name, place in rows:
        target = moved.get(place, place)
        if "client-certificates-" in name:
            target = f"/usr/share/windhover/{Path(name).name}"
        installed = rootfs / target.lstrip("/")
        assert installed.read_bytes() == (FIRMWARE / name).read_bytes(), name
        assert stat.S_IMODE(installed.stat().st_mode) & 0o022 == 0


def test_what_is_in_it_is_listed_with_its_licence(image: Path, rootfs: Path) -> None:
    rows = [line.split("\t") for line in (image / "packages.txt").read_text().splitlines()]
    assert all(len(row) == 3 and all(row) for row in rows)
    names = {row[0] for row in rows}
    assert {"libc6", "systemd", "nginx-light", "python3.11", "python:numba"} <= names
    assert "perl" not in names
    listed = (rootfs / "usr/lib/windhover/software.list").read_bytes()
    assert listed == (image / "software.list").read_bytes()
