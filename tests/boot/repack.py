"""An image whose files were changed, with the hash tree and the root hash that fit them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.boot.disks import found
from tests.boot.image import Image


def repacked(image: Image, folder: Path, change: Callable[[Path], None]) -> Image:
    """Unpack the root, change it, and pack it; return the image with a command line of its own.

    This is what somebody does who can write the whole boot disk and is not stopped by a signature
    over kernel, initrd and command line.

    Args:
        image: that is changed; stays as it is.
        folder: that is made, for the other root.
        change: is given the folder with the unpacked root.
    """
    folder.mkdir()
    files, root = folder / "files", folder / "root.img"
    _run("unsquashfs", "-quiet", "-no-progress", "-dest", str(files), str(image.root))
    change(files)
    _run(
        "mksquashfs", str(files), str(root), "-comp", "zstd", "-Xcompression-level", "1",
        "-noappend", "-no-xattrs", "-no-progress", "-quiet",
    )  # fmt: skip
    shutil.rmtree(files)
    offset = -(-root.stat().st_size // 4096) * 4096
    with root.open("r+b") as file:
        file.truncate(offset)
    said = _run(
        "veritysetup", "format", str(root), str(root), f"--hash-offset={offset}",
        f"--data-blocks={offset // 4096}",
    )  # fmt: skip
    hashed = re.search(r"^Root hash:\s*([0-9a-f]{64})$", said, re.MULTILINE)
    assert hashed, said
    return image.with_root(root, hashed[1], offset)


def _run(name: str, *words: str) -> str:
    done = subprocess.run([found(name), *words], check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{name}: {(done.stdout + done.stderr)[-2000:]}"
    return done.stdout
