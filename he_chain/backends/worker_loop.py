"""The inside of a worker process: answers frames on its standard streams until they end."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable, Mapping
from typing import Final

from he_chain import errors
from he_chain.backends.messages import MAX_FRAME_BYTES, Message, frame_parts, read_frame

Handler = Callable[[Message], Message]

KINDS: Final = {
    kind.__name__: kind
    for kind in (
        errors.BackendError,
        errors.CheckpointError,
        errors.LevelError,
        errors.PlanError,
        errors.ProtocolError,
        errors.RangeError,
        errors.ScaleError,
        errors.SecurityError,
    )
}
"""Errors that cross the pipe as themselves; every other one arrives as a BackendError."""


class _EndedError(Exception):
    """The client closed the pipe."""


def serve(handlers: Mapping[str, Handler], *, max_bytes: int = MAX_FRAME_BYTES) -> None:
    """Answer requests by name until the client closes the pipe.

    Frames go over a private copy of standard output; what a library prints joins standard error.
    """
    replies = os.dup(1)
    os.dup2(2, 1)
    try:
        while True:
            request = read_frame(_read_exactly, max_bytes)
            for part in frame_parts(_answer(handlers, request), max_bytes):
                _write_all(replies, part)
    except (_EndedError, BrokenPipeError):
        return
    except errors.ProtocolError as error:  # out of step with the client: nothing more can be said
        sys.stderr.write(f"{error}\n")
        sys.exit(3)


def _answer(handlers: Mapping[str, Handler], request: Message) -> Message:
    handler = handlers.get(request.name)
    try:
        if handler is None:
            raise errors.ProtocolError(f"this worker knows no request {request.name!r}")
        return handler(request)
    except Exception as error:  # one request failed: its client decides
        known = type(error).__name__ in KINDS
        kind = type(error).__name__ if known else "BackendError"
        text = str(error) if known else f"{type(error).__name__}: {error}"
        return Message("error", {"kind": kind, "text": text[:4000]})


def peak_rss_bytes() -> int:
    """Return the most memory that this process has had resident."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def usage(_: Message) -> Message:
    """Answer what the process has used so far."""
    return Message("usage", {"cpu_s": time.process_time(), "peak_rss_bytes": peak_rss_bytes()})


def _read_exactly(size: int) -> bytes:
    buffer = bytearray(size)
    view, done = memoryview(buffer), 0
    while done < size:
        count = os.readv(0, [view[done:]])
        if not count:
            raise _EndedError
        done += count
    return bytes(buffer)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
