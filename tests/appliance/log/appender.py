"""A process that lets logs be written by processes of its own, and kills them.

It has everything imported, and forks for each attempt. Arguments: a JSON object; for each line on
stdin one attempt, and one JSON line on stdout with what the killed process had released.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from appliance.log.anchor import FileAnchor
from appliance.log.log import Log
from appliance.log.writer import Limits
from crypto.selftest import ensure_self_tested
from tests.appliance.log.case import SIGNER

CALLS = ("open", "pwrite", "fdatasync", "fsync", "link", "replace", "ftruncate", "fchmod", "write")
THREADS = 4
PIECE_BYTES = 200


def append_for_ever(log, pipe):
    """Append admissions and close them; report each entry after its release."""

    def report(committed):
        position, head = committed.position, committed.head
        line = json.dumps(
            [
                position.index,
                committed.entry.hex(),
                head.size,
                head.root.hex(),
                position.log_id.hex(),
            ]
        )
        os.write(pipe, line.encode() + b"\n")  # in one piece: shorter than PIPE_BUF

    def work(number):
        turn = 0
        while True:
            turn += 1
            text = f"{number} {turn} {os.getpid()}".encode()
            admitted = log.append(
                lambda position, text=text: text + b" " * (position.index % 700),
                admits=True,
                reserve_bytes=900,
            )
            report(admitted)
            report(
                log.append(
                    lambda position, text=text: b"closing " + text,
                    closes=admitted.position.index,
                    reservation=admitted.reservation,
                )
            )

    threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def kill_at_call(number):
    """Let this process kill itself before its `number`-th call that changes files.

    It writes in short pieces, so that many of the moments lie inside a batch.
    """
    left = [number]
    lock = threading.Lock()
    whole = os.pwrite
    os.pwrite = lambda descriptor, data, offset: whole(descriptor, data[:PIECE_BYTES], offset)

    def wrapped(call):
        def counted(*arguments, **settings):
            with lock:
                left[0] -= 1
                if not left[0]:
                    os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **settings)

        return counted

    for name in CALLS:
        setattr(os, name, wrapped(getattr(os, name)))


def attempt(base, at_call):
    """Start the log in a process of its own and kill it; return what it had released."""
    reader, writer = os.pipe()
    process = os.fork()
    if not process:
        os.close(reader)
        with suppress(BaseException):
            if at_call is not None:
                kill_at_call(at_call)
            log = Log(
                base / "log",
                signer=SIGNER,
                issuer="tests",
                anchor=FileAnchor(base / "anchor"),
                limits=Limits(segment_entries=40),
            )
            for index, _ in log.open_admissions():
                log.append(lambda position: b"lost", closes=index)
            append_for_ever(log, writer)
        os._exit(1)
    os.close(writer)
    if at_call is None:
        time.sleep(0.03 + secrets.randbelow(250) / 1000)
        os.kill(process, signal.SIGKILL)
    data = b""
    while piece := os.read(reader, 1 << 16):
        data += piece
    os.close(reader)
    _, status = os.waitpid(process, 0)
    whole, _, _ = data.rpartition(b"\n")
    return {
        "killed": os.WIFSIGNALED(status),
        "released": [json.loads(line) for line in whole.splitlines()],
    }


def main():
    spec = json.loads(sys.argv[1])
    ensure_self_tested()
    for number, _ in enumerate(sys.stdin):
        at_call = None if number % 2 else 1 + secrets.randbelow(120)
        print(json.dumps(attempt(Path(spec["base"]), at_call)), flush=True)


if __name__ == "__main__":
    main()
