"""Inside the evaluator's worker process: the library that computes with evaluation keys.

It has no function that decrypts, or that takes a secret key; a folder with one in it is refused.
"""

from __future__ import annotations

import ctypes
import json
import time
from pathlib import Path
from typing import Final

from he_chain.backends.lattigo_library import GRAPHS, Library, MappedFile
from he_chain.backends.lattigo_parameters import BOOT_FILE, SECRET_FILE, SWITCHING_FILE
from he_chain.backends.messages import Message
from he_chain.backends.worker_loop import Handler, peak_rss_bytes, usage
from he_chain.errors import BackendError, SecurityError

MAX_KEY_BYTES: Final = 1 << 35
MAX_PROGRAM_BYTES: Final = 1 << 31


class EvaluatorWorker:
    """Answers for the evaluator; there is no request, and no function below, that decrypts."""

    def __init__(self) -> None:
        """Load the library."""
        self._library = Library(GRAPHS)
        self._evaluator = 0

    @property
    def handlers(self) -> dict[str, Handler]:
        """Requests by name."""
        return {"open": self.open, "run": self.run, "usage": usage}

    def open(self, request: Message) -> Message:
        """Read the evaluation keys of a folder that has no secret key."""
        folder = Path(request.fields["folder"])
        if (folder / SECRET_FILE).exists():
            raise SecurityError("there is a secret key in the evaluator's folder")
        settings = json.dumps(request.fields["parameters"]).encode()
        with (
            MappedFile(folder / SWITCHING_FILE, MAX_KEY_BYTES) as switching,
            MappedFile(folder / BOOT_FILE, MAX_KEY_BYTES) as boot,
        ):
            self._evaluator = self._library.call(
                "EvalNewEvaluator",
                ctypes.c_char_p(settings),
                switching.pointer,
                switching.size,
                boot.pointer,
                boot.size,
            )
        return Message("ready", {"peak_rss_bytes": peak_rss_bytes()})

    def run(self, request: Message) -> Message:
        """Run a program on a ciphertext whose structure the client has checked."""
        library = self._library
        with MappedFile(Path(request.fields["program"]), MAX_PROGRAM_BYTES) as program:
            model = library.call("EvalLoadModel", program.pointer, program.size)
        packed = len(request.blobs[0]).to_bytes(8, "little") + request.blobs[0]
        size = ctypes.c_ulong(0)
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            pointer = library.call(
                "EvalForward",
                ctypes.c_size_t(self._evaluator),
                ctypes.c_size_t(model),
                ctypes.c_char_p(packed),
                ctypes.c_ulong(len(packed)),
                ctypes.c_int(1),
                ctypes.byref(size),
                result=ctypes.c_void_p,
            )
            answer = ctypes.string_at(pointer, size.value)
            library.free(pointer)
        finally:
            library.close_model(model)
        if len(answer) < 8 or int.from_bytes(answer[:8], "little") != len(answer) - 8:
            raise BackendError("Lattigo: the program gave more or less than one ciphertext")
        figures = {
            "wall_s": time.perf_counter() - wall,
            "cpu_s": time.process_time() - cpu,
            "peak_rss_bytes": peak_rss_bytes(),
        }
        return Message("ciphertext", figures, [answer[8:]])
