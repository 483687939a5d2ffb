"""Opening and reading files that may be anything, and may change while they are read."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.errors import ConversionError

MAX_SHOWN_CHARACTERS = 80


class OpenFile(NamedTuple):
    """A regular file, and the size that it had when it was opened."""

    file: BinaryIO
    size_bytes: int


def open_regular(path: Path) -> OpenFile:
    """Open a file for reading without waiting for whoever may write it.

    Raises:
        ConversionError: It is not a regular file.
        OSError: It cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise ConversionError(f"{path}: not a regular file")
    return OpenFile(os.fdopen(descriptor, "rb"), status.st_size)


def read_into(file: BinaryIO, array: NDArray[np.generic], offset_bytes: int, what: str) -> None:
    """Fill an array with what a file holds at an offset; `what` names it in the message.

    Raises:
        ConversionError: The file ends before that: it became shorter after it was opened.
    """
    view = array.data.cast("B")
    while view:
        done = os.preadv(file.fileno(), [view], offset_bytes)
        if done == 0:
            raise ConversionError(f"{what}: its file became shorter while it was read")
        view, offset_bytes = view[done:], offset_bytes + done


def shown(value: object) -> str:
    """Return a value of a source as it may stand in a message: one line, not long."""
    text = value if isinstance(value, str) and value.isprintable() else repr(value)
    return text if len(text) <= MAX_SHOWN_CHARACTERS else text[:MAX_SHOWN_CHARACTERS] + "..."
