"""Prepared kernels: compiled once, before the service starts, into a folder that it only reads.

numba keeps what it compiled as pickles, so that whoever may write such a file runs code in the
process that loads it. A service in production therefore reads none but from a folder that it cannot
write and that the software digest covers; without one it compiles everything itself.

`windhover compile-cache DIR` calls `prepare`, the start of the service `choose` and `load`.

The same sources, at the same path, with the same interpreter and packages, give the same bytes:
numba names sources by their SHA-256 and the SHA-1 of their folder's path. Times are in no file.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from crypto.errors import UnavailableError
from engine.errors import ConfigError
from simd.settings import CACHE_SETTING, PATH_SETTING, USE_SETTING

_NEW: Final = ".new-"
_WRITE_BITS: Final = 0o222
_HINT: Final = "`windhover compile-cache DIR` prepares a folder"
_PROGRAM: Final = (
    "import sys; into, dry, *sys.path[:] = sys.argv[1:]; "
    "from appliance.service.kernel_cache import compile_into; compile_into(into, dry == 'dry')"
)


class Prepared(NamedTuple):
    """What `prepare` made. folder: of one target and these sources. is_new: it was not there."""

    folder: Path
    is_new: bool
    num_files: int


def prepare(folder: Path, path: str | None = None) -> Prepared:
    """Compile every kernel of a path into a folder, and take away its write bits.

    What is there for these sources already is kept. A process that is killed leaves nothing that a
    service would read.

    Args:
        folder: where the folder of the target goes.
        path: one of `simd.settings.PATHS`, also one that this CPU cannot run; by default its own.

    Raises:
        OSError: the folder cannot be written.
        UnavailableError: the kernels could not be compiled.
    """
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    for left in folder.glob(f"{_NEW}*"):
        shutil.rmtree(left)
    new = Path(tempfile.mkdtemp(prefix=_NEW, dir=folder))
    try:
        # A process of its own, for this one may have kernels from elsewhere.
        made = Path(_run(folder, new, path, dry=True))
        is_new = not made.is_dir()
        if is_new:
            made = Path(_run(folder, new, path, dry=False))
    finally:
        shutil.rmtree(new, ignore_errors=True)
        _take_away_write_bits(folder)
    return Prepared(made, is_new, sum(path.is_file() for path in made.rglob("*")))


def choose(folder: Path | None, *, is_dev: bool) -> str:
    """Say to `simd.target`, by the environment, where kernels come from; return it in a word.

    Call it before anything of `simd.target` or numba is imported.

    Args:
        folder: the prepared folder, None without one.
        is_dev: whether the user's own cache may be used without one.

    Returns:
        `prepared`; `user-cache`, in mode `dev`; or `compiled`: in this process, before the lock.

    Raises:
        ConfigError: the folder could be written by this process, or is none.
    """
    if folder is None:
        os.environ[USE_SETTING] = "write" if is_dev else "none"
        return "user-cache" if is_dev else "compiled"
    if not folder.is_dir():
        raise ConfigError(f"{folder}: there are no prepared kernels; {_HINT}")
    for path in (folder, *folder.rglob("*")):
        if _is_writable(path):
            raise ConfigError(
                f"{path}: this process could write it, and who can write prepared kernels runs "
                "code in the service; let another user own the folder, or take the write bits away"
            )
    os.environ[CACHE_SETTING], os.environ[USE_SETTING] = str(folder), "read"
    return "prepared"


def load() -> None:
    """Import the kernels; where they are prepared, load all of them and compile none.

    Raises:
        ConfigError: prepared kernels are missing, of other sources, or damaged.
        UnavailableError: the user's cache cannot be written.
        UnsupportedCpuError, SelfTestError: as the kernels raise them.
    """
    from simd import target  # noqa: PLC0415

    if os.environ.get(USE_SETTING) != "read":
        try:
            import engine.forward  # noqa: PLC0415, F401
        except OSError as error:
            folder = target.cache_folder(target.TARGET)
            reason = error.strerror or type(error).__name__
            raise UnavailableError(f"{folder}: kernels cannot be kept there: {reason}") from error
        return
    from simd.compilation import forbid_compilation  # noqa: PLC0415
    from simd.errors import ConfigError as KernelError  # noqa: PLC0415
    from simd.errors import SimdError  # noqa: PLC0415

    folder = target.cache_folder(target.TARGET)
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no kernels are prepared for this CPU and version; {_HINT}")
    forbid_compilation()
    try:
        _touch_all()
    except KernelError as error:
        raise ConfigError(f"{error}; {_HINT} anew") from error
    except SimdError:
        raise
    except Exception as error:  # a damaged pickle can raise anything
        raise ConfigError(
            f"{folder}: a prepared kernel cannot be loaded ({type(error).__name__}); {_HINT} anew"
        ) from error


def _touch_all() -> None:
    """Compile or load every kernel of this path."""
    import engine.forward  # noqa: PLC0415
    import engine.sampling.sampler  # noqa: PLC0415, F401
    from crypto.kernels.variants import VARIANTS  # noqa: PLC0415
    from engine.kernels import ops  # noqa: PLC0415
    from engine.kernels.build import Kernel  # noqa: PLC0415
    from simd.target import TARGET  # noqa: PLC0415

    for kernel in vars(ops).values():
        if isinstance(kernel, Kernel):
            _ = kernel.address
    for variant in VARIANTS:
        if variant.path == TARGET.path:
            _ = variant.function.address


def compile_into(folder: str, is_dry: bool) -> None:
    """Be the process of `prepare`: compile, move what came out into `folder`, print where it is.

    Args:
        folder: where the folder of the target goes.
        is_dry: whether nothing is compiled.
    """
    from simd import target  # noqa: PLC0415

    made = target.cache_folder(target.TARGET)
    goal = Path(folder, made.name)
    if not is_dry:
        _leave_out_annotations()
        _touch_all()
        made.rename(goal)
    sys.stdout.write(f"{goal}\n")


def _leave_out_annotations() -> None:
    """Keep numba's annotated listings out of what it writes: they hold addresses of this process.

    They are for `inspect_types`, which nobody calls here.
    """
    from numba.core.annotations.type_annotations import TypeAnnotation  # noqa: PLC0415

    TypeAnnotation.__str__ = lambda _: ""  # type: ignore[method-assign]


def _run(folder: Path, new: Path, path: str | None, *, dry: bool) -> str:
    """Run `compile_into` and return what it printed."""
    # The order of sets of names is in the machine code.
    environment = os.environ | {CACHE_SETTING: str(new), "PYTHONHASHSEED": "0"}
    if path is None:
        environment[USE_SETTING] = "write"
    else:
        environment |= {USE_SETTING: "prepare", PATH_SETTING: path}
    words = [str(folder), "dry" if dry else "", *sys.path]
    arguments = [sys.executable, "-c", _PROGRAM, *words]
    result = subprocess.run(  # noqa: S603  this interpreter, with its own paths
        arguments,
        check=False,
        capture_output=True,
        text=True,
        env={name: value for name, value in environment.items() if not name.startswith("NUMBA_")},
    )
    if result.returncode:
        lines = result.stderr.strip().splitlines() or [f"exit {result.returncode}"]
        raise UnavailableError(f"the kernels were not compiled: {lines[-1]}")
    return result.stdout.strip().splitlines()[-1]


def _take_away_write_bits(folder: Path) -> None:
    for path in (*folder.rglob("*"), folder):
        path.chmod(stat.S_IMODE(path.stat().st_mode) & ~_WRITE_BITS)


def _is_writable(path: Path) -> bool:
    """Whether this process may write a file; root, who always may, is asked for the write bits."""
    if os.geteuid() == 0:
        return bool(path.stat().st_mode & _WRITE_BITS) and not _is_read_only(path)
    return os.access(path, os.W_OK)


def _is_read_only(path: Path) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
