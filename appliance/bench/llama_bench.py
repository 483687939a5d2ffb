"""The rival: llama.cpp's own benchmark program, one case at a time, so that runs alternate."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

from appliance.bench.cases import Case
from appliance.bench.memory import Peak, last_line, peak_of
from engine.errors import ConfigError

_FACTS = (
    "build_commit",
    "build_number",
    "cpu_info",
    "backends",
    "model_type",
    "model_size",
    "n_batch",
    "n_ubatch",
    "type_k",
    "type_v",
    "repack",
)
"""What llama-bench says about itself and its settings, as it is kept as evidence."""


class LlamaBench:
    """A `llama-bench` program and the GGUF file that it is measured with."""

    def __init__(self, program: Path, gguf: Path) -> None:
        """Name both; nothing is started yet."""
        self._program = program
        self._gguf = gguf
        self._last: dict[str, Any] = {}
        self._flash_attention: dict[tuple[Case, int], bool] = {}

    def choose(self, case: Case, threads: int) -> bool:
        """Find out once whether flash attention, llama.cpp's default, is faster for a case.

        On a CPU it often is not when much lies before the case; the rival is measured at its best.

        Returns:
            Whether the case will be measured with it.

        Raises:
            OSError, ConfigError: as of `measure`.
        """
        without = self._run(case, threads, flash_attention=False)
        faster = self._run(case, threads, flash_attention=True) >= without
        self._flash_attention[case, threads] = faster
        return faster

    def measure(self, case: Case, threads: int) -> float:
        """Run one case once, after llama-bench's own warm-up, as `choose` decided.

        Returns:
            Tokens per second.

        Raises:
            OSError: the program cannot be started.
            ConfigError: it failed, or what it printed is not llama-bench's JSON.
        """
        return self._run(
            case, threads, flash_attention=self._flash_attention.get((case, threads), True)
        )

    def _run(self, case: Case, threads: int, *, flash_attention: bool) -> float:
        prompt, generated = (case.tokens, 0) if case.phase == "prefill" else (0, case.tokens)
        numbers = {"-p": prompt, "-n": generated, "-d": case.depth, "-fa": int(flash_attention)}
        command = [
            *self._command(threads),
            *(str(part) for pair in numbers.items() for part in pair),
        ]
        done = subprocess.run(  # noqa: S603 - the program that the caller named
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            check=False,
        )  # fmt: skip
        if done.returncode:
            raise ConfigError(
                f"llama-bench failed with {done.returncode}: {last_line(done.stderr)}"
            )
        try:
            (self._last,) = json.loads(done.stdout)
            (rate,) = self._last["samples_ts"]
            rate = float(rate)
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{self._program} did not print llama-bench's JSON") from error
        if not 0 < rate < float("inf"):
            raise ConfigError(f"{self._program} measured {rate} tokens per second")
        return rate

    def peak(self, prompt: int, generated: int, threads: int) -> Peak:
        """Return the memory that one prompt and the tokens after it take.

        Raises:
            OSError, ConfigError: as of `measure`.
        """
        case = ["-p", "0", "-n", "0", "-pg", f"{prompt},{generated}", "--no-warmup"]
        return peak_of([*self._command(threads), *case])

    def facts(self) -> dict[str, object]:
        """Return what identifies the program and the weights; complete after one measurement."""
        with self._gguf.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        return {
            "program": self._program.name,
            **{name: self._last[name] for name in _FACTS if name in self._last},
            "gguf": self._gguf.name,
            "gguf_sha256": digest,
            "gguf_bytes": self._gguf.stat().st_size,
        }

    def _command(self, threads: int) -> list[str]:
        # one repetition, no layer on another device; everything else as llama-bench has it
        fixed = ["-o", "json", "-r", "1", "-ngl", "0"]
        return [str(self._program), "-m", str(self._gguf), "-t", str(threads), *fixed]
