"""An evaluator's keys: made and written one by one, so that memory holds one of them at a time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from he_chain.backends.frame import OVERHEAD, frame_head, unframe
from he_chain.backends.key_folder import (
    GALOIS,
    PUBLIC,
    RELIN,
    FolderHeader,
    galois_name,
    read_file,
    refuse_secret_key,
    write_file,
    write_header,
)
from he_chain.backends.seal_context import SealContext
from he_chain.backends.seal_library import from_bytes, to_bytes, translated
from he_chain.errors import ProtocolError
from he_chain.planning.sizes import max_key_switch_file_bytes, max_public_key_file_bytes

BACKEND: Final = "seal"
_PUBLIC: Final = b"publ"
_RELIN: Final = b"reli"
_GALOIS: Final = b"galo"


@dataclass(frozen=True)
class SealKeys:
    """The keys that an evaluator has loaded: SEAL's objects."""

    public: Any
    relin: Any
    galois: Mapping[int, Any]
    """Steps to the left -> an object with the key of that rotation alone."""


def galois_element(context: SealContext, steps: int) -> int:
    """Return the exponent of the automorphism X -> X^e that rotates to the left: 3^steps mod 2 N.

    SEAL's binding takes elements where its documentation speaks of steps.
    """
    return pow(3, steps, 2 * context.parameters.ring_degree)


def write_keys(
    folder: Path,
    context: SealContext,
    secret_key: Any,  # noqa: ANN401 - the binding has no types
    rotations: Collection[int],
) -> int:
    """Write the evaluation keys for a secret key and return the number of bytes.

    Raises:
        SecurityError: the folder has a secret key.
        BackendError: the library refuses.
        crypto.errors.WriteError: a file exists already, or the file system refuses.
    """
    (folder / GALOIS).mkdir(parents=True, exist_ok=True)
    refuse_secret_key(folder)
    steps_list = sorted({context.rules.steps(steps) for steps in rotations} - {0})
    header = FolderHeader(
        BACKEND, context.parameters, context.security.bits, rotations=tuple(steps_list)
    )
    with translated("keys"):
        generator = context.library.KeyGenerator(context.raw, secret_key)
        public = context.library.PublicKey()
        generator.create_public_key(public)
        relin = generator.create_relin_keys()
    written = _write(folder / PUBLIC, _PUBLIC, public)
    written += _write(folder / RELIN, _RELIN, relin)
    for steps in steps_list:
        with translated("keys"):
            key = generator.create_galois_keys([galois_element(context, steps)])
        written += _write(folder / galois_name(steps), _GALOIS, key)
    # last: a folder with it is complete
    return written + write_header(folder, header)


def read_keys(folder: Path, context: SealContext, rotations: Collection[int]) -> SealKeys:
    """Read what `write_keys` wrote.

    Raises:
        ProtocolError: a file is absent, damaged, or of other parameters.
    """
    library = context.library
    key_bytes = max_key_switch_file_bytes(context.parameters)
    public_bytes = max_public_key_file_bytes(context.parameters)
    galois = {}
    for steps in rotations:
        path = folder / galois_name(steps)
        galois[steps] = key = _read(path, _GALOIS, context, library.GaloisKeys(), key_bytes)
        if not key.has_key(galois_element(context, steps)):
            raise ProtocolError(f"{path}: is the key of another rotation")
    return SealKeys(
        public=_read(folder / PUBLIC, _PUBLIC, context, library.PublicKey(), public_bytes),
        relin=_read(folder / RELIN, _RELIN, context, library.RelinKeys(), key_bytes),
        galois=galois,
    )


def _write(path: Path, kind: bytes, key: Any) -> int:  # noqa: ANN401 - the binding has no types
    payload = to_bytes(path.name, key.save)
    return write_file(path, frame_head(kind, payload), payload)


def _read(
    path: Path,
    kind: bytes,
    context: SealContext,
    key: Any,  # noqa: ANN401 - the binding has no types
    max_bytes: int,
) -> Any:  # noqa: ANN401 - the binding has no types
    """Fill a key from a file and return it."""
    data = read_file(path, max_bytes=max_bytes + OVERHEAD)
    payload = unframe(kind, data, max_bytes=max_bytes)
    from_bytes(path.name, lambda name: key.load(context.raw, name), payload)
    return key
