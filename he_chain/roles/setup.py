"""Making the two folders of a run: keys, the holder's part of the model, a prompt's session."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final, Protocol

from he_chain.backends.base import Holder
from he_chain.backends.key_folder import refuse_secret_key
from he_chain.calib import MAX_BYTES, Ranges, decode_ranges, refuse_prompt
from he_chain.errors import PlanError, ProtocolError
from he_chain.records.run_folder import read_whole, write_whole
from he_chain.roles.holder_model import MODEL, HolderModel, write_holder_model
from he_chain.roles.session import new_session
from he_chain.weights import ModelWeights

KEY_ID: Final = "key.id"
CALIBRATION: Final = "calibration.cbor"
KEY_ID_BYTES: Final = 16
_FOLDER_MODE: Final = 0o700


class SavesKeys(Holder, Protocol):
    """A holder whose secret key can be written."""


def write_keys(
    holder: SavesKeys, holder_folder: Path, evaluator_folder: Path, rotations: Collection[int]
) -> int:
    """Write the secret key into one folder and the evaluation keys into the other.

    Both get a random name of the keys by which they know each other.

    Returns:
        Bytes of the evaluation keys.

    Raises:
        SecurityError: the evaluator's folder has a secret key.
        WriteError: there are keys already, or the file system refused.
        PlanError: both folders are the same.
    """
    if holder_folder.resolve() == evaluator_folder.resolve():
        raise PlanError("holder and evaluator need two folders")
    for folder in (holder_folder, evaluator_folder):
        folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
    refuse_secret_key(evaluator_folder)
    holder.save(holder_folder)
    size_bytes = holder.write_evaluation_keys(evaluator_folder, rotations)
    key_id = os.urandom(KEY_ID_BYTES)
    for folder in (holder_folder, evaluator_folder):
        write_whole(folder / KEY_ID, key_id, force=False)
    return size_bytes


def write_session(
    folder: Path,
    weights: ModelWeights,
    ids: Sequence[int],
    *,
    max_positions: int,
) -> None:
    """Write a prompt into the holder's folder, and its part of the model if it is not there.

    Raises:
        ProtocolError: no tokens, too many, or one outside the vocabulary; the folder's keys and
            ranges are of another model.
        WriteError: the file system refused.
    """
    if not all(0 <= token < weights.config.vocab_size for token in ids):
        raise ProtocolError("a token is outside the vocabulary")
    session = new_session(ids, max_positions=max_positions, num_layers=weights.config.num_layers)
    if not (folder / MODEL).exists():
        write_holder_model(folder, weights)
    elif HolderModel(folder).model_digest != weights.model_digest:
        raise ProtocolError("the holder's folder is of another model")
    session.save(folder)


def write_ranges(folders: Sequence[Path], ranges: Ranges, prompt_ids: Sequence[int]) -> None:
    """Write the ranges, which are public, into the folders.

    Raises:
        PlanError: they were measured on the prompt.
        WriteError: the file system refused.
    """
    refuse_prompt(ranges, prompt_ids)
    for folder in folders:
        write_whole(folder / CALIBRATION, ranges.encode(), force=True)


def read_ranges(folder: Path) -> Ranges:
    """Return a folder's ranges; CheckpointError where they are missing or damaged."""
    return decode_ranges(read_whole(folder / CALIBRATION, MAX_BYTES))


def read_key_id(folder: Path) -> bytes:
    """Return the name of a folder's keys; CheckpointError where it is missing."""
    return read_whole(folder / KEY_ID, KEY_ID_BYTES)
