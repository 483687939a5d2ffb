"""What software this process runs: one digest over every file that it can have been made from.

The list has the packages of the application, the environment's packages, the interpreter with its
standard library, libcrypto, and the prepared kernels where they are used; bytecode included,
because it is what runs. Whoever has the same
files gets the same digest, wherever they lie. It is what the appliance says about itself: a changed
program can say anything.

An environment for development, 830 MB in 21,000 files, takes 7 s of one core of an AMD Zen 3. Its
digest changes when the interpreter writes bytecode; where nothing can be written, it stays.
"""

from __future__ import annotations

import atexit
import os
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from crypto import libcrypto
from crypto.errors import UnavailableError
from crypto.labels import SOFTWARE_LIST
from crypto.sm3 import Sm3
from simd.settings import CACHE_SETTING, USE_SETTING

PACKAGES: Final = ("appliance", "crypto", "engine", "he_chain", "simd", "verifier")
"""The top-level packages of the application."""

_READ_BYTES: Final = 1 << 20
_PROGRAM: Final = (
    "import sys; sys.path[:] = sys.argv[1:]; "
    "from appliance.software import software_digest; print(software_digest(1).hex())"
)


_OF_OTHERS: Final = frozenset({"site-packages", "dist-packages"})
"""Packages beside the standard library, which an environment of its own does not see."""


class SoftwareFile(NamedTuple):
    """One file of the list.

    path: where it belongs, `app/`, `site/`, `python/` or `lib/` before it. mode: its permissions.
    length_bytes: its length. digest: SM3 of its content.
    """

    path: str
    mode: int
    length_bytes: int
    digest: bytes


class Place(NamedTuple):
    """A file on this machine, and what it is called in the list."""

    path: str
    file: Path


def list_digest(files: list[SoftwareFile]) -> bytes:
    """Return the 32 bytes of a list, in whatever order it comes.

    For each file by the bytes of its path: u32 length of the path, path in UTF-8, u32 mode, u64
    length, digest; little-endian.
    """
    hasher = Sm3(SOFTWARE_LIST)
    for encoded, file in sorted((os.fsencode(file.path), file) for file in files):
        hasher.update(len(encoded).to_bytes(4, "little") + encoded)
        hasher.update(file.mode.to_bytes(4, "little") + file.length_bytes.to_bytes(8, "little"))
        hasher.update(file.digest)
    return hasher.digest()


def tree(name: str, folder: Path, *, skip: Collection[str] = ()) -> Iterator[Place]:
    """Yield every regular file below a folder; links to files and folders are not followed.

    Args:
        name: what stands for the folder in the list.
        folder: where it is.
        skip: names of folders in it that do not belong to it.

    Raises:
        OSError: a folder cannot be read.
    """
    for base, folders, files in os.walk(folder, onerror=_raise):
        if Path(base) == folder:
            folders[:] = [other for other in folders if other not in skip]
        for file in files:
            path = Path(base, file)
            if stat.S_ISREG(path.lstat().st_mode):
                yield Place(f"{name}/{path.relative_to(folder).as_posix()}", path)


def places(kernels: Path | None = None) -> Iterator[Place]:
    """Yield the files of this process; none twice.

    Args:
        kernels: the folder of prepared kernels; by default the one that the process reads, if any.

    Raises:
        OSError: a folder cannot be read.
    """
    root = Path(__file__).resolve().parents[1]
    site = {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")}
    for package in PACKAGES:
        if (root / package).is_dir() and root not in site:
            yield from tree(f"app/{package}", root / package)
    for folder in sorted(site):
        yield from tree("site", folder)
    interpreter = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    yield Place(f"python/{interpreter.name}", interpreter)
    yield from tree("python/lib", Path(sysconfig.get_path("stdlib")).resolve(), skip=_OF_OTHERS)
    library = libcrypto.load().path.resolve()
    yield Place(f"lib/{library.name}", library)
    if kernels is None and os.environ.get(USE_SETTING) == "read":
        kernels = Path(os.environ[CACHE_SETTING])
    if kernels is not None:
        yield from tree("kernels", kernels)


def describe(place: Place) -> SoftwareFile:
    """Read one file.

    Raises:
        OSError: it cannot be read.
    """
    hasher, length_bytes = Sm3(), 0
    with place.file.open("rb", buffering=0) as stream:
        mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
        while content := stream.read(_READ_BYTES):
            hasher.update(content)
            length_bytes += len(content)
    return SoftwareFile(place.path, mode, length_bytes, hasher.digest())


@cache
def software_files(num_threads: int = 2, kernels: Path | None = None) -> tuple[SoftwareFile, ...]:
    """Return the list of this process, read once.

    Args:
        num_threads: how many read.
        kernels: as of `places`.

    Raises:
        UnavailableError: a file cannot be read, or there is no libcrypto that can be used.
    """
    try:
        if num_threads == 1:
            return tuple(map(describe, places(kernels)))
        with ThreadPoolExecutor(max_workers=num_threads) as pool:
            return tuple(pool.map(describe, places(kernels)))
    except OSError as error:
        raise UnavailableError(f"{error.filename}: {error.strerror}") from error


def software_digest(num_threads: int = 2) -> bytes:
    """Return the 32 bytes that name the software of this process; the first call takes seconds.

    Raises:
        UnavailableError: as of `software_files`.
    """
    return list_digest(list(software_files(num_threads)))


def begin_software_digest() -> Callable[[], bytes]:
    """Start to compute the digest beside other work; return what waits for it.

    A process of its own computes it: a thread would take the interpreter's lock from the one that
    answers, which then takes several times as long. It ends with this process.

    What is returned raises UnavailableError as of `software_files`.
    """
    child = subprocess.Popen(  # noqa: S603  this interpreter, with its own paths
        [sys.executable, "-c", _PROGRAM, *sys.path],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    atexit.register(child.kill)

    @cache
    def wait() -> bytes:
        out, err = child.communicate()
        atexit.unregister(child.kill)
        if child.returncode:
            lines = err.strip().splitlines() or [f"exit {child.returncode}"]
            raise UnavailableError(f"the software digest was not computed: {lines[-1]}")
        return bytes.fromhex(out)

    return wait


def _raise(error: OSError) -> None:
    raise error
