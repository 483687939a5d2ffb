"""The image that is booted: taken from a folder, or built; and copies of it that were altered."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.firmware.tools import FIRMWARE

FOLDER_SETTING = "WINDHOVER_IMAGE"
ROOT_HASH = "windhover.roothash="
TREE = "windhover.verity="
_NAMES = ("root.img", "vmlinuz", "initrd.img", "cmdline", "roothash")


@dataclass(frozen=True)
class Image:
    """What a machine starts from.

    folder: where it was built. root: file system and hash tree. cmdline: of the kernel.
    """

    folder: Path
    root: Path
    cmdline: str

    @property
    def kernel(self) -> Path:
        """The kernel."""
        return self.folder / "vmlinuz"

    @property
    def initrd(self) -> Path:
        """What opens the root."""
        return self.folder / "initrd.img"

    @property
    def files(self) -> tuple[Path, ...]:
        """What is started, the root first."""
        return self.root, self.kernel, self.initrd

    @property
    def root_hash(self) -> str:
        """The root of the hash tree that the command line names."""
        return self._said(ROOT_HASH)

    @property
    def tree(self) -> int:
        """Where the hash tree begins in the root, in bytes."""
        return int(self._said(TREE))

    def with_root(self, root: Path, root_hash: str, tree: int) -> Image:
        """Return the same with another root, and what the command line says about it."""
        others = [w for w in self.cmdline.split() if not w.startswith((ROOT_HASH, TREE))]
        words = [f"{ROOT_HASH}{root_hash}", f"{TREE}{tree}", *others]
        return replace(self, root=root, cmdline=" ".join(words))

    def _said(self, name: str) -> str:
        words = [word for word in self.cmdline.split() if word.startswith(name)]
        if len(words) != 1:
            raise ValueError(f"{self.folder}: the command line says {len(words)} times {name}")
        return words[0].removeprefix(name)


def image_of(folder: Path) -> Image:
    """Return what lies in a folder.

    Raises:
        ValueError: it is no image, or its command line names another root hash than `roothash`.
    """
    missing = [name for name in _NAMES if not (folder / name).is_file()]
    if missing:
        raise ValueError(f"{folder} is no image: {', '.join(missing)} missing")
    image = Image(folder, folder / "root.img", (folder / "cmdline").read_text().strip())
    if image.root_hash != (folder / "roothash").read_text().strip():
        raise ValueError(f"{folder}: cmdline and roothash name different roots")
    return image


def given() -> Path | None:
    """Return the folder that the environment names."""
    name = os.environ.get(FOLDER_SETTING)
    return Path(name).resolve() if name else None


def build(folder: Path, *words: str) -> Path:
    """Build an image, which takes minutes; skip the test where that is not possible."""
    if os.geteuid() != 0:
        pytest.skip(f"only root builds an image; {FOLDER_SETTING}=FOLDER names a built one")
    if shutil.which("mmdebstrap") is None:
        pytest.skip("mmdebstrap is not here: `make boot-tools` installs it")
    program = FIRMWARE / "image" / "build"
    done = subprocess.run(
        [str(program), str(folder), *words], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return folder


def altered(image: Image, copy: Path, offset: int) -> Image:
    """Copy the root and change one byte of it: all its bits."""
    shutil.copy(image.root, copy)
    with copy.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)
        assert len(byte) == 1, f"{offset} is beyond the end"
        file.seek(offset)
        file.write(bytes([byte[0] ^ 0xFF]))
    return replace(image, root=copy)
