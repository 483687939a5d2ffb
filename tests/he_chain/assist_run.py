"""Runs of protocol `assist` for tests: both folders, and both sides in one process."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from he_chain.backends.mock import MockEvaluator, MockHolder
from he_chain.calib import Ranges, calibrate, public_ids
from he_chain.chain import Chain, begin_run
from he_chain.errors import HeChainError
from he_chain.packing import Packing
from he_chain.parameters import Parameters
from he_chain.plaintext import PlainModel
from he_chain.records.run_folder import Run
from he_chain.roles.holder import KeyHolder
from he_chain.roles.setup import (
    read_key_id,
    read_ranges,
    write_keys,
    write_ranges,
    write_session,
)
from he_chain.transport import SocketChannel

SMALL_RING = Parameters(512, 2)
"""256 slots: three cached positions a ciphertext, and products of several blocks."""


def prepare(
    folder: Path,
    model: PlainModel,
    ids: Sequence[int],
    *,
    max_positions: int,
    parameters: Parameters = SMALL_RING,
    backend: Any = MockHolder,
    ranges: Ranges | None = None,
) -> None:
    """Write HOLDER, EVALUATOR and RUN."""
    holder = backend.create(parameters)
    rotations = Packing(model.config, parameters.num_slots).rotations
    write_keys(holder, folder / "HOLDER", folder / "EVALUATOR", rotations)
    write_session(folder / "HOLDER", model, ids, max_positions=max_positions)
    found = calibrate(model, public_ids(model)[:48]) if ranges is None else ranges
    write_ranges([folder / "HOLDER", folder / "EVALUATOR"], found, ids)
    name = "mock" if backend is MockHolder else "seal"
    begin = begin_run(
        model,
        parameters,
        found,
        backend=name,
        plan_digest=bytes(32),
        gate_bits=15,
        libraries={"numpy": np.__version__},
    )
    Run.create(folder / "RUN", begin)


def open_holder(folder: Path, backend: Any = MockHolder) -> KeyHolder:
    """Return the key holder of a folder."""
    own = folder / "HOLDER"
    return KeyHolder(own, backend.open(own), read_ranges(own), read_key_id(own))


def agreed_of(folder: Path, model: PlainModel) -> dict[str, bytes]:
    """Return what an evaluator greets with."""
    own = folder / "EVALUATOR"
    return {
        "calibration": read_ranges(own).digest(),
        "key": read_key_id(own),
        "model": model.model_digest,
    }


@dataclass
class Served:
    """A key holder that serves one evaluator in a thread."""

    holder: KeyHolder
    channel: SocketChannel = field(init=False)
    error: HeChainError | None = None

    def __post_init__(self) -> None:
        ours, theirs = socket.socketpair()
        self.channel = SocketChannel(theirs, 60)
        self._thread = threading.Thread(target=self._serve, args=(SocketChannel(ours, 60),))
        self._thread.start()

    def _serve(self, channel: SocketChannel) -> None:
        try:
            self.holder.serve(channel)
        except HeChainError as error:
            self.error = error
        finally:
            channel.close()

    def close(self) -> None:
        """Leave, and wait for the holder to notice."""
        self.channel.close()
        self._thread.join(60)
        assert not self._thread.is_alive()


def carry_on(
    folder: Path,
    model: PlainModel,
    holder: KeyHolder | None = None,
    *,
    max_hops: int | None = None,
    logits_of_all: bool = True,
    evaluator: Any = None,
) -> Run:
    """Open the run and carry it on; the holder's refusal is raised here."""
    served = Served(open_holder(folder) if holder is None else holder)
    try:
        chain = Chain(
            Run.open(folder / "RUN"),
            MockEvaluator.open(folder / "EVALUATOR") if evaluator is None else evaluator,
            model,
            served.channel,
            agreed_of(folder, model),
            logits_of_all=logits_of_all,
        )
        chain.go(max_hops=max_hops)
        return chain.run
    finally:
        served.close()


def bits(found: np.ndarray, wanted: np.ndarray) -> float:
    """Return how many bits agree: -log2 of the largest error over the largest value."""
    return float(-np.log2(np.abs(found - wanted).max() / np.abs(wanted).max()))
