"""A worker program for tests: answers, and misbehaves on request."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from pathlib import Path

from he_chain.backends.messages import Message, frame_parts
from he_chain.backends.worker_loop import serve
from he_chain.errors import RangeError


def echo(request: Message) -> Message:
    """Return what came, after noise on standard output that must not reach the frames."""
    print("a library prints this", flush=True)
    os.write(1, b"and this, past Python\n")
    return Message("echo", request.fields, request.blobs)


def end(request: Message) -> Message:
    """End as told."""
    sys.stderr.write(request.fields.get("say", ""))
    sys.stderr.flush()
    if "signal" in request.fields:
        os.kill(os.getpid(), getattr(signal, request.fields["signal"]))
    os._exit(request.fields["code"])


def refuse(request: Message) -> Message:
    """Raise an error of the chain, or one that it does not know."""
    if request.fields["known"]:
        raise RangeError("too large")
    raise KeyError("what")


def raw(request: Message) -> Message:
    """Write bytes that are no answer, and wait for the end."""
    descriptor = max(int(p.name) for p in Path("/proc/self/fd").iterdir() if _is_pipe(p))
    data = request.blobs[0] if request.blobs else b""
    if request.fields.get("cut"):
        data = b"".join(frame_parts(Message("echo", {}, [b"x" * 1000])))[:500]
    while data:
        data = data[os.write(descriptor, data) :]
    if request.fields.get("cut"):
        os._exit(0)
    time.sleep(60)
    return request


def _is_pipe(path: Path) -> bool:
    try:
        return str(path.readlink()).startswith("pipe:")
    except OSError:
        return False


def hang(request: Message) -> Message:
    """Not answer."""
    time.sleep(60)
    return request


def allocate(request: Message) -> Message:
    """Take memory."""
    return Message("done", {"size": len(bytearray(request.fields["size"]))})


def limit(request: Message) -> Message:
    """Return the limit on the address space."""
    return Message("limit", {"limit": resource.getrlimit(resource.RLIMIT_AS)[0]})


if __name__ == "__main__":
    serve(
        {
            "echo": echo,
            "end": end,
            "refuse": refuse,
            "raw": raw,
            "hang": hang,
            "allocate": allocate,
            "limit": limit,
        },
        max_bytes=1 << 22,
    )
