"""What lies in the folders of a key holder and of an evaluator.

A holder's folder: parameters.json, secret.key. An evaluator's: parameters.json, public.key,
relin.key and one file galois/STEPS.key a rotation, so that no file grows with their number.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

from crypto.atomic import AtomicFile
from he_chain.errors import ProtocolError, SecurityError
from he_chain.parameters import Parameters

PARAMETERS: Final = "parameters.json"
SECRET: Final = "secret.key"  # noqa: S105 - a file's name
PUBLIC: Final = "public.key"
RELIN: Final = "relin.key"
GALOIS: Final = "galois"
_FORMAT: Final = "windhover he-keys 1"
_MAX_BYTES: Final = 1 << 20
_MAX_DEGREE: Final = 1 << 17
_MAX_LEVELS: Final = 64
_MAX_BITS: Final = 60


@dataclass(frozen=True)
class FolderHeader:
    """What parameters.json says."""

    backend: str
    parameters: Parameters
    security_bits: int
    rotations: tuple[int, ...] = ()
    """Steps to the left that the folder has a key for, ascending."""


def galois_name(steps: int) -> str:
    """Return the name of a rotation's key in its folder."""
    return f"{GALOIS}/{steps:06}.key"


def refuse_secret_key(folder: Path) -> None:
    """Check that a folder can be an evaluator's.

    Raises:
        SecurityError: a secret key is in it.
    """
    if os.path.lexists(folder / SECRET):
        raise SecurityError(f"{folder} has a {SECRET}: an evaluator must not see one")


def write_file(path: Path, *parts: bytes | bytearray, mode: int = 0o644) -> int:
    """Write a file, new and whole, and return its length; until then nobody else can open it.

    Raises:
        crypto.errors.WriteError: it exists, or the file system refuses.
    """
    length = 0
    with AtomicFile(path, force=False, mode=mode) as file:
        file.create()
        for part in parts:
            file.write_at(length, part)
            length += len(part)
        file.commit()
    return length


def read_file(path: Path, *, max_bytes: int) -> bytes:
    """Return the content of a file that is not longer than it may be.

    Raises:
        ProtocolError: it is not there, cannot be read, or is longer.
    """
    try:
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise ProtocolError(f"{path}: {error.strerror}") from error
    if len(data) > max_bytes:
        raise ProtocolError(f"{path}: has more than {max_bytes} bytes")
    return data


def write_header(folder: Path, header: FolderHeader) -> int:
    """Write parameters.json and return its length.

    Raises:
        crypto.errors.WriteError: it exists, or the file system refuses.
    """
    fields_of_header = {
        "format": _FORMAT,
        "backend": header.backend,
        "parameters": asdict(header.parameters),
        "security_bits": header.security_bits,
        "rotations": list(header.rotations),
    }
    text = json.dumps(fields_of_header, indent=1, sort_keys=True) + "\n"
    return write_file(folder / PARAMETERS, text.encode())


def read_header(folder: Path, backend: str) -> FolderHeader:
    """Read parameters.json of keys that a backend wrote.

    Raises:
        ProtocolError: it is absent, malformed, or of another backend.
    """
    path = folder / PARAMETERS
    try:
        header = _header(json.loads(read_file(path, max_bytes=_MAX_BYTES)))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ProtocolError(f"{path}: malformed: {error}") from error
    if header.backend != backend:
        raise ProtocolError(f"{path}: keys of {header.backend!r}, not of {backend!r}")
    return header


def _header(found: Any) -> FolderHeader:  # noqa: ANN401 - what a JSON text holds
    """Return the header in a JSON value; ValueError, KeyError or TypeError when it has none."""
    if set(found) != {"format", "backend", "parameters", "security_bits", "rotations"}:
        raise ValueError("other fields than a header has")
    if found["format"] != _FORMAT or not isinstance(found["backend"], str):
        raise ValueError(f"not {_FORMAT}")
    if set(found["parameters"]) != {field.name for field in fields(Parameters)}:
        raise ValueError("other parameters than there are")
    parameters = Parameters(
        **{name: _whole(value, _MAX_DEGREE) for name, value in found["parameters"].items()}
    )
    if parameters.ring_degree & (parameters.ring_degree - 1) or not parameters.ring_degree:
        raise ValueError("the ring's degree is no power of two")
    if parameters.num_levels > _MAX_LEVELS or max(parameters.prime_bits) > _MAX_BITS:
        raise ValueError("too many levels, or too large primes")
    rotations = tuple(_whole(steps, parameters.num_slots - 1) for steps in found["rotations"])
    if list(rotations) != sorted(set(rotations) - {0}):
        raise ValueError("rotations are not ascending")
    return FolderHeader(
        found["backend"], parameters, _whole(found["security_bits"], 256), rotations
    )


def _whole(value: Any, limit: int) -> int:  # noqa: ANN401 - what a JSON text holds
    """Return a whole number of 0..limit."""
    if type(value) is not int or not 0 <= value <= limit:
        raise ValueError(f"{value!r} is not a whole number of 0..{limit}")
    return value
