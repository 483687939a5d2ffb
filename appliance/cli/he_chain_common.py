"""What the subcommands of `windhover he-chain` share: folders, backends, how hops are shown."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from appliance.cli.options import Decorator, with_options
from appliance.cli.output import format_bytes, note, write_json
from engine.errors import ConfigError
from he_chain.backends.key_folder import PARAMETERS, read_file
from he_chain.errors import BackendError, ProtocolError

if TYPE_CHECKING:
    from he_chain.backends.base import Evaluator
    from he_chain.parameters import Parameters
    from he_chain.records.record import Record
    from he_chain.records.run_folder import Run
    from he_chain.roles.setup import SavesKeys

BACKENDS: Final = ("seal", "mock")
DEFAULT_GATE_BITS: Final = 15
_PATH: Final = click.Path(path_type=Path)
_MAX_HEADER_BYTES: Final = 1 << 20

holder_option: Decorator = click.option(
    "--holder", type=_PATH, required=True, metavar="DIR", help="The key holder's folder."
)
evaluator_option: Decorator = click.option(
    "--evaluator", type=_PATH, required=True, metavar="DIR", help="The evaluator's folder."
)
run_option: Decorator = click.option(
    "--run", "run_folder", type=_PATH, required=True, metavar="DIR",
    help="Records and ciphertexts of the run.",
)  # fmt: skip
gate_option: Decorator = click.option(
    "--gate-bits", type=click.IntRange(1, 53), default=DEFAULT_GATE_BITS, show_default=True,
    help="Precision that the run has to reach; fixed when it begins.",
)  # fmt: skip

_PARAMETERS: Final[tuple[Decorator, ...]] = (
    click.option("--ring", type=click.IntRange(1024, 1 << 16), default=8192, show_default=True),
    click.option("--levels", type=click.IntRange(0, 40), default=1, show_default=True),
    click.option("--scale-bits", type=click.IntRange(20, 59), default=40, show_default=True),
)


def parameter_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a chain: `ring`, `levels`, `scale_bits`."""
    return with_options(function, _PARAMETERS)


def parameters_of(ring: int, levels: int, scale_bits: int) -> Parameters:
    """Return the parameters; ConfigError where the ring's degree is no power of two."""
    from he_chain.parameters import Parameters  # noqa: PLC0415  (only where keys are planned)

    if ring & (ring - 1):
        raise ConfigError(f"--ring {ring} is no power of two")
    return Parameters(ring, levels, scale_bits)


def backend_of(folder: Path) -> str:
    """Return the name of the backend that the keys in a folder are of.

    Raises:
        ConfigError: there are no keys.
        ProtocolError: they are damaged, or of no backend that is known.
    """
    if not (folder / PARAMETERS).exists():
        raise ConfigError(f"{folder}: there are no keys; `windhover he-chain keys` makes them")
    try:
        header = json.loads(read_file(folder / PARAMETERS, max_bytes=_MAX_HEADER_BYTES))
        name = header["backend"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ProtocolError(f"{folder}: {PARAMETERS} is malformed") from None
    if name not in BACKENDS:
        raise ProtocolError(f"{folder}: keys of an unknown backend")
    return str(name)


def create_holder(backend: str, parameters: Parameters) -> SavesKeys:
    """Make a secret key.

    Raises:
        SecurityError: the parameters are below 128 bits.
        BackendError: the library is absent or refuses.
    """
    if backend == "mock":
        from he_chain.backends.mock import MockHolder  # noqa: PLC0415  (one backend is enough)

        return MockHolder.create(parameters)
    from he_chain.backends.seal import SealHolder  # noqa: PLC0415  (an extra)

    return SealHolder.create(parameters)


def open_holder(folder: Path) -> SavesKeys:
    """Read a holder's keys.

    Raises:
        SecurityError: others can read the secret key.
        ProtocolError: a file is absent or damaged.
        BackendError: the library is absent.
    """
    if backend_of(folder) == "mock":
        from he_chain.backends.mock import MockHolder  # noqa: PLC0415  (one backend is enough)

        return MockHolder.open(folder)
    from he_chain.backends.seal import SealHolder  # noqa: PLC0415  (an extra)

    return SealHolder.open(folder)


def open_evaluator(folder: Path) -> Evaluator:
    """Read an evaluator's keys.

    Raises:
        SecurityError: the folder has a secret key.
        ProtocolError: a file is absent or damaged.
        BackendError: the library is absent.
    """
    if backend_of(folder) == "mock":
        from he_chain.backends.mock import MockEvaluator  # noqa: PLC0415  (one backend is enough)

        return MockEvaluator.open(folder)
    from he_chain.backends.seal import SealEvaluator  # noqa: PLC0415  (an extra)

    return SealEvaluator.open(folder)


def open_run(folder: Path) -> Run:
    """Read a run as far as it has come.

    Raises:
        ConfigError: there is none.
        CheckpointError: it is damaged.
    """
    from he_chain.records.run_folder import Run  # noqa: PLC0415  (takes NumPy)

    if not (folder / "begin.rec").exists():
        raise ConfigError(f"{folder}: there is no run")
    return Run.open(folder)


def libraries(backend: str) -> dict[str, str]:
    """Return names and versions of what computes; BackendError where a package is absent."""
    names = ["numpy", *(["tenseal"] if backend == "seal" else [])]
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            raise BackendError(f"{name} is not installed: install windhover[he]") from None
    return found


def show_hop(record: Record, *, as_json: bool) -> None:
    """Print a finished hop: a line on stderr, or an object on stdout."""
    where = "fin" if record.layer is None else f"{record.kind} {record.layer}"
    if as_json:
        write_json(
            {
                "hop": record.number,
                "kind": record.kind,
                "position": record.position,
                "layer": record.layer,
                "exchanges": record.exchanges,
                "bytes_up": record.bytes_up,
                "bytes_down": record.bytes_down,
                "cpu_s": round(record.cpu_s, 3),
                "wall_s": round(record.wall_s, 3),
                "peak_rss_bytes": record.peak_rss_bytes,
                "digest": record.digest().hex(),
            }
        )
        return
    note(
        f"hop {record.number}: token {record.position}, {where} | {record.exchanges} exchanges, "
        f"{format_bytes(record.bytes_up)} up, {format_bytes(record.bytes_down)} down | "
        f"{record.cpu_s:.1f} s CPU, {record.wall_s:.1f} s | {format_bytes(record.peak_rss_bytes)} "
        "| finished"
    )
