"""A full disk, or a limit on file sizes: one clear line, exit code 3, the old file whole."""

from __future__ import annotations

import resource
import shutil
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.appliance.cli.workshop import Workshop

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMANDS = ("keygen", "sign", "sign sealed", "seal", "seal over", "rewrap", "new key", "revoke")


@contextmanager
def file_size_limit(size_bytes: int) -> Iterator[None]:
    """Let no file of this process become longer; the signal that says so is ignored by Python."""
    assert signal.getsignal(signal.SIGXFSZ) is signal.SIG_IGN
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


@pytest.fixture
def tmpfs(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 1 MiB; only root can."""
    place = tmp_path / "small"
    place.mkdir()
    mount, umount = shutil.which("mount"), shutil.which("umount")
    if mount is None or umount is None:
        pytest.skip("there is no `mount` here")
    options = ["-t", "tmpfs", "-o", "size=1m", "windhover-test", place]
    if subprocess.run([mount, *options], capture_output=True, check=False).returncode:
        pytest.skip("a file system can only be mounted by root")
    yield place
    subprocess.run([umount, place], check=True)


def command_line(shop: Workshop, folder: Path, name: str) -> tuple[list[object], Path]:
    """Make what a command needs and return its words, and the file that it writes."""
    shop.key("second", "unseal")
    shop.key("revoke", "revoke")
    sign = ["--key", shop.path("vendor.pem"), "--line", "demo", "--release", 1]
    opening, to = ["--key", shop.path("appliance.pem")], ["--to", shop.public("second")]
    plain, sealed = folder / "plain.vqf", folder / "sealed.vqf"
    if name == "keygen":
        return ["keygen", folder / "new.pem", "--role", "unseal", "--no-passphrase"], (
            folder / "new.pem"
        )
    if name == "revoke":
        return ["revoke", folder / "list", "--key", shop.path("revoke.pem"), "--sequence", 1], (
            folder / "list"
        )
    source = shop.weights()
    if name == "sign":
        plain.write_bytes(source.read_bytes())
        return ["sign", plain, *sign], plain
    if name != "seal":
        shop.done("seal", source, sealed, "--to", shop.public("appliance"))
    words: dict[str, list[object]] = {
        "sign sealed": ["sign", sealed, *sign, "--unseal-key", shop.path("appliance.pem")],
        "seal": ["seal", source, sealed, *to],
        "seal over": ["seal", source, sealed, *to, "--force"],
        "rewrap": ["rewrap", sealed, *opening, "--add", shop.public("second")],
        "new key": ["rewrap", sealed, *opening, *to, "--new-key"],
    }
    return words[name], sealed


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def fill(path: Path) -> None:
    """Write a file until nothing more fits."""
    with path.open("wb", buffering=0) as ballast:
        while True:
            ballast.write(bytes(4096))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_limit_on_file_sizes(shop: Workshop, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    words, file = command_line(shop, folder, name)
    before = contents(folder)
    with file_size_limit(64 if name in {"keygen", "revoke"} else 20_000):
        result = shop(*words)
    assert (result.exit_code, result.value["kind"]) == (3, "WriteError")
    assert result.err.count("\n") == 1
    assert str(file) in result.err
    assert "File too large" in result.err
    assert contents(folder) == before


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_file_system(shop: Workshop, tmpfs: Path, name: str) -> None:
    words, file = command_line(shop, tmpfs, name)
    with pytest.raises(OSError, match="No space left"):
        fill(tmpfs / "ballast")
    before = contents(tmpfs)
    result = shop(*words)
    assert (result.exit_code, result.value["kind"]) == (3, "WriteError")
    assert result.err.count("\n") == 1
    assert "No space left on device" in result.err
    assert contents(tmpfs) == before
    (tmpfs / "ballast").unlink()
    shop.done(*words)
    assert file.exists()
