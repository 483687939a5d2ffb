"""A library in a process of its own, asked over pipes: what kills it does not kill the chain.

A request is written whole and its answer read whole, one at a time. A worker that ends, hangs or
sends what is no frame becomes an error with the lines that it left on standard error, and is
stopped: it is never asked again.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from he_chain.backends.memory import check_memory
from he_chain.backends.messages import MAX_FRAME_BYTES, Message, frame_parts, read_frame
from he_chain.backends.worker_loop import KINDS
from he_chain.errors import BackendError, ProtocolError

_KEPT_BYTES: Final = 4096
_CHUNK_BYTES: Final = 1 << 20
_PACKAGES: Final = Path(__file__).parents[2]


@dataclass(frozen=True)
class Limits:
    """What a worker may take."""

    call_s: float = 60.0
    """Longest wait for an answer, unless the call says otherwise."""
    frame_bytes: int = MAX_FRAME_BYTES
    needed_bytes: int = 0
    """Memory that must be available before it is started."""
    address_bytes: int | None = None
    """Its RLIMIT_AS: an allocation beyond it fails inside the worker."""


class Worker:
    """A running worker process; a context manager that stops it."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        name: str,
        limits: Limits | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start it.

        Args:
            command: arguments behind this interpreter, such as ["-m", "a.module", "holder"].
            name: what errors call it.
            limits: of time, sizes and memory.
            environment: variables on top of this process's.

        Raises:
            BackendError: not enough memory is available, or it cannot be started.
        """
        self._limits = limits or Limits()
        self._name = name
        self._dead: str | None = None
        check_memory(self._limits.needed_bytes, name)
        path = os.pathsep.join(filter(None, [str(_PACKAGES), os.environ.get("PYTHONPATH")]))
        try:
            self._process = subprocess.Popen(  # noqa: S603  (this interpreter, our own module)
                [sys.executable, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env={**os.environ, "PYTHONPATH": path, **(environment or {})},
            )
        except OSError as error:
            raise BackendError(f"{name}: cannot be started: {error.strerror}") from None
        if self._limits.address_bytes is not None:
            limit = self._limits.address_bytes
            resource.prlimit(self._process.pid, resource.RLIMIT_AS, (limit, limit))
        self._requests = _descriptor(self._process.stdin)
        self._answers = _descriptor(self._process.stdout)
        os.set_blocking(self._requests, False)
        os.set_blocking(self._answers, False)
        self._errors = _Tail(_descriptor(self._process.stderr))

    def __enter__(self) -> Self:
        """Return the worker."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop it."""
        self.close()

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    def call(self, request: Message, *, timeout_s: float | None = None) -> Message:
        """Send a request and return its answer.

        Raises:
            BackendError: the worker ended, hung, or said so itself.
            ProtocolError: what it sent is no frame or too large, or it did not know the request.
            HeChainError: any other kind that the worker raised.
        """
        if self._dead is not None:
            raise BackendError(self._dead)
        deadline = time.monotonic() + (timeout_s or self._limits.call_s)
        parts = frame_parts(request, self._limits.frame_bytes)
        try:
            for part in parts:
                self._write(part, deadline)
            answer = read_frame(lambda size: self._read(size, deadline), self._limits.frame_bytes)
        except ProtocolError as error:
            raise ProtocolError(self._stop(f"{self._name}: {error}")) from None
        except TimeoutError:
            raise BackendError(
                self._stop(f"{self._name}: no answer to {request.name} in time")
            ) from None
        except (EOFError, OSError):
            raise BackendError(self._stop(None)) from None
        except BaseException:  # interrupted between two frames: the pipe is out of step
            self._stop(f"{self._name}: the call {request.name} was interrupted")
            raise
        if answer.name == "error":
            kind = KINDS.get(str(answer.fields.get("kind")), BackendError)
            raise kind(f"{self._name}: {answer.fields.get('text')}")
        return answer

    def close(self) -> None:
        """Stop the worker; it gets a second to end by itself. Closing again does nothing."""
        if self._dead is None:
            self._dead = f"{self._name}: it has been closed"
            os.close(self._requests)
            try:
                self._process.wait(1.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
            self._reap()

    def _write(self, part: bytes, deadline: float) -> None:
        view = memoryview(part)
        while view:
            self._wait(self._requests, select.POLLOUT, deadline)
            view = view[os.write(self._requests, view[:_CHUNK_BYTES]) :]

    def _read(self, size: int, deadline: float) -> bytes:
        buffer = bytearray(size)
        view, done = memoryview(buffer), 0
        while done < size:
            self._wait(self._answers, select.POLLIN, deadline)
            count = os.readv(self._answers, [view[done : done + _CHUNK_BYTES]])
            if not count:
                raise EOFError
            done += count
        return bytes(buffer)

    @staticmethod
    def _wait(descriptor: int, event: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(descriptor, event)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise TimeoutError

    def _stop(self, reason: str | None) -> str:
        """Kill it and return why: the reason, or how it ended, and what it said last."""
        os.close(self._requests)
        if reason is None:
            try:
                self._process.wait(5.0)  # the pipe is closed: it is about to end
            except subprocess.TimeoutExpired:
                self._process.kill()
        else:
            self._process.kill()
        code = self._reap()
        said = self._errors.text()
        self._dead = (reason or f"{self._name}: {ending(code)}") + (
            f"; it said: {said}" * bool(said)
        )
        return self._dead

    def _reap(self) -> int:
        code = self._process.wait()
        self._errors.join()
        os.close(self._answers)
        return code


class _Tail:
    """Standard error of a worker: drained by a thread, the first and the last 4 KiB kept."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._first = b""
        self._last = b""
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        while data := os.read(self._descriptor, 65536):
            room = _KEPT_BYTES - len(self._first)
            self._first += data[:room]
            self._last = (self._last + data[room:])[-_KEPT_BYTES:]
        os.close(self._descriptor)

    def join(self) -> None:
        self._thread.join(5.0)

    def text(self) -> str:
        """Return its first line of a crash, where there is one, and its last lines."""
        lines = (self._first + self._last).decode("utf-8", "replace").splitlines()
        crash = [line for line in lines if line.startswith(("panic:", "fatal error:", "runtime:"))]
        chosen = crash[:3] or [line for line in lines if line.strip()][-3:]
        return " | ".join(line.strip()[:300] for line in chosen)


def ending(code: int) -> str:
    """Return in words how a process ended."""
    if code >= 0:
        return f"the worker ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = " (as when the machine runs out of memory)" if name == "SIGKILL" else ""
    return f"the worker was ended by {name}{hint}"


def _descriptor(pipe: object) -> int:
    """Return a descriptor of our own for a pipe's end, which outlives the file object."""
    descriptor = os.dup(pipe.fileno())  # type: ignore[attr-defined]
    pipe.close()  # type: ignore[attr-defined]
    return descriptor
