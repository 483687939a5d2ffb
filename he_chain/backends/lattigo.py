"""CKKS with bootstrapping: a key holder and an evaluator on Lattigo, each in a worker process.

The two roles are two libraries, two processes and two folders. The evaluator has keys for
rotations, products and bootstraps; its library has no function that decrypts. It runs whole
programs (lattigo_program.py), not single operations, so this is no `Evaluator` of base.py.

`orion-fhe` 1.0.2, which also carries Lattigo, is not used: one global scheme for each process with
the secret key in it, bootstrap keys and ciphertexts that cannot leave it, binary32 values.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from crypto.atomic import AtomicFile
from he_chain.backends.lattigo_ciphertext import CiphertextShape, ciphertext_shape
from he_chain.backends.lattigo_parameters import (
    BOOT_FILE,
    SECRET_FILE,
    SWITCHING_FILE,
    BootParameters,
)
from he_chain.backends.lattigo_program import galois_elements
from he_chain.backends.memory import check_memory
from he_chain.backends.messages import Message
from he_chain.backends.worker import Limits, Worker
from he_chain.errors import BackendError, CheckpointError, RangeError

PARAMETERS_FILE: Final = "parameters.json"
_MODULE: Final = "he_chain.backends.lattigo_worker"
_BOOT_KEYS: Final = 30
"""About how many keys a bootstrap of a sparse vector takes."""
_KEYS_S: Final = 600.0
_RUN_S: Final = 3600.0

Values = NDArray[np.float64]


class LattigoHolder:
    """Has the secret key; a context manager around its process."""

    def __init__(self, parameters: BootParameters, folder: Path | None = None) -> None:
        """Start the process, and make a key or read that of a folder.

        Raises:
            BackendError: the library is absent or refuses, or too little memory is available.
            SecurityError: the file of the secret key may be read by others.
        """
        self.parameters = parameters
        self._worker = _start("holder", Limits(needed_bytes=64 * 8 * parameters.ring_degree))
        fields: dict[str, Any] = {"parameters": parameters.to_json()}
        name = "create"
        if folder is not None:
            name, fields["folder"] = "open", str(folder.resolve())
        try:
            ready = self._worker.call(Message(name, fields))
        except BaseException:
            self._worker.close()
            raise
        self.primes: tuple[int, ...] = tuple(ready.fields["primes"])

    def __enter__(self) -> Self:
        """Return the holder."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop the process."""
        self.close()

    def close(self) -> None:
        """Stop the process."""
        self._worker.close()

    def save(self, folder: Path) -> None:
        """Write the secret key, readable by its owner only, and the parameters."""
        _write_parameters(folder, self.parameters, self.primes)
        self._worker.call(Message("save", {"folder": str(folder.resolve())}))

    def write_evaluation_keys(self, folder: Path, rotations: Collection[int]) -> int:
        """Write what an evaluator needs, for these rotations; return the bytes.

        Raises:
            BackendError: there are keys already, or too little memory is available.
        """
        check_memory(keys_bytes(self.parameters, len(rotations)), "the keys of bootstraps")
        _write_parameters(folder, self.parameters, self.primes)
        fields = {
            "folder": str(folder.resolve()),
            "elements": galois_elements(set(rotations), self.parameters),
            "log_slots": self.parameters.log_slots,
        }
        done = self._worker.call(Message("evaluation_keys", fields), timeout_s=_KEYS_S)
        return sum(done.fields["sizes"])

    def encrypt(self, values: Values, level: int) -> bytes:
        """Encrypt float64[period], repeated over all slots.

        Raises:
            RangeError: a value is not finite or does not fit level 0.
        """
        parameters = self.parameters
        if not 0 <= level <= parameters.num_levels or parameters.num_slots % len(values):
            raise RangeError(
                f"level {level} or {len(values)} values: there are no such ciphertexts"
            )
        largest = float(np.abs(values).max())
        if not largest * 2.0**parameters.scale_bits < self.primes[0] / 4:
            raise RangeError(f"a value of {largest:g} does not fit the modulus of level 0")
        full = np.tile(values, parameters.num_slots // len(values)).astype("<f8")
        answer = self._worker.call(Message("encrypt", {"level": level}, [full.tobytes()]))
        return answer.blobs[0]

    def decrypt(self, data: bytes) -> Values:
        """Return float64[num_slots].

        Raises:
            ProtocolError: it is damaged, or of other parameters.
        """
        self.shape(data)
        answer = self._worker.call(Message("decrypt", {}, [data]))
        return np.frombuffer(answer.blobs[0], "<f8").astype(np.float64)

    def shape(self, data: bytes) -> CiphertextShape:
        """Return level and scale of a ciphertext; ProtocolError where it is none."""
        return ciphertext_shape(data, self.parameters.ring_degree, self.primes)

    def usage(self) -> dict[str, float]:
        """Return cpu_s and peak_rss_bytes of the process so far."""
        return self._worker.call(Message("usage")).fields


class LattigoEvaluator:
    """Computes on ciphertexts with the keys of a folder; a context manager around its process."""

    def __init__(self, folder: Path) -> None:
        """Start the process and read the keys.

        Raises:
            BackendError: the library is absent or refuses, or too little memory is available.
            CheckpointError: the folder's parameters cannot be read.
            SecurityError: there is a secret key in the folder.
        """
        self.parameters, self.primes = read_parameters(folder)
        sizes = [_size(folder / name) for name in (SWITCHING_FILE, BOOT_FILE)]
        self.key_bytes = sum(sizes)
        self._worker = _start("evaluator", Limits(needed_bytes=3 * self.key_bytes))
        fields = {"folder": str(folder.resolve()), "parameters": self.parameters.to_json()}
        try:
            self._worker.call(Message("open", fields), timeout_s=_KEYS_S)
        except BaseException:
            self._worker.close()
            raise

    def __enter__(self) -> Self:
        """Return the evaluator."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop the process."""
        self.close()

    def close(self) -> None:
        """Stop the process."""
        self._worker.close()

    def run(self, program: Path, data: bytes) -> tuple[bytes, dict[str, float]]:
        """Run a program's file on a ciphertext; return one, and cpu_s, wall_s, peak_rss_bytes.

        Raises:
            ProtocolError: the ciphertext is damaged, or of other parameters.
            BackendError: the library refused, or its process ended.
        """
        self.shape(data)
        message = Message("run", {"program": str(program.resolve())}, [data])
        answer = self._worker.call(message, timeout_s=_RUN_S)
        self.shape(answer.blobs[0])
        return answer.blobs[0], answer.fields

    def shape(self, data: bytes) -> CiphertextShape:
        """Return level and scale of a ciphertext; ProtocolError where it is none."""
        return ciphertext_shape(data, self.parameters.ring_degree, self.primes)

    def usage(self) -> dict[str, float]:
        """Return cpu_s and peak_rss_bytes of the process so far."""
        return self._worker.call(Message("usage")).fields


def keys_bytes(parameters: BootParameters, num_rotations: int) -> int:
    """Return about the memory that making keys, or reading them, takes: three times their size."""
    between = (num_rotations + 1) * parameters.key_bytes
    return 3 * (_BOOT_KEYS * parameters.boot_key_bytes + between)


def read_parameters(folder: Path) -> tuple[BootParameters, tuple[int, ...]]:
    """Return the parameters of a folder and the primes of its ciphertexts; CheckpointError."""
    try:
        value = json.loads((folder / PARAMETERS_FILE).read_bytes())
        parameters = BootParameters(**value["parameters"])
        primes = tuple(int(prime) for prime in value["primes"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{PARAMETERS_FILE}: {type(error).__name__}") from None
    if not 4 <= parameters.log_degree <= 17 or len(primes) != parameters.num_levels + 1:
        raise CheckpointError(f"{PARAMETERS_FILE}: no such parameters")
    return parameters, primes


def _write_parameters(folder: Path, parameters: BootParameters, primes: tuple[int, ...]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / SECRET_FILE).exists():
        raise BackendError(f"{folder.name} has a key already")
    text = json.dumps({"parameters": asdict(parameters), "primes": primes}).encode()
    with AtomicFile(folder / PARAMETERS_FILE, force=False) as file:
        file.create()
        file.write_at(0, text)
        file.commit()


def _start(role: str, limits: Limits) -> Worker:
    """Start a worker of one role; Go collects often there, since its memory is mostly keys."""
    return Worker(
        ["-m", _MODULE, role],
        name=f"Lattigo ({role})",
        limits=limits,
        environment={"GOGC": "20", "OMP_NUM_THREADS": "1"},
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise CheckpointError(f"{path.name}: {error.strerror}") from None
