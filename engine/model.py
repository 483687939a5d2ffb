"""A model from a VQF file, ready to answer: weights, tokenizer, template, engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from engine.config import ModelConfig, TokenizerConfig
from engine.errors import ConfigError, TemplateError, UnsupportedError
from engine.memory.buffers import return_freed_memory
from engine.memory.full import FullWeights
from engine.text.template import ChatTemplate
from engine.text.tokenizer import Tokenizer
from engine.vqf import open_vqf

if TYPE_CHECKING:
    from engine.forward import Engine

DEFAULT_MAX_ROWS: Final = 512


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


class Model:
    """Everything that one VQF file gives."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        num_threads: int | None = None,
        max_rows: int = DEFAULT_MAX_ROWS,
        max_positions: int | None = None,
        max_outputs: int = 64,
        max_blocks: int | None = None,
        float_profile: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Read and check a plain VQF file, and start the engine.

        Args:
            path: the file; closed again when this returns.
            num_threads: by default the number of cores that the process may use.
            max_rows: as of `Engine`.
            max_positions: as of `Engine`.
            max_outputs: as of `Engine`.
            max_blocks: as of `Engine`.
            float_profile: run profile `wh1-float` (NUMERICS N13): for comparison, never to serve.
            progress: called with (bytes read, bytes in all).

        Raises:
            OSError: the file cannot be opened.
            FormatError: the file breaks a rule of its format.
            WeightsError: a chunk did not verify.
            WeightsUncheckedError: the file could not be read.
            UnsupportedError: something in it is not supported.
            ConfigError: an argument is outside its range.
        """
        threads = usable_cores() if num_threads is None else num_threads
        if threads < 1:
            raise ConfigError(f"num_threads must be at least 1, not {threads}")
        with open_vqf(Path(path)) as file:
            self.config: ModelConfig = file.manifest.config
            self.tokenizer_config: TokenizerConfig = file.manifest.tokenizer
            self.model_digest = file.model_digest
            # Digests leave one core to what is parsed and imported meanwhile.
            with ThreadPoolExecutor(max_workers=1) as background:
                reading = background.submit(
                    FullWeights,
                    file,
                    as_floats=float_profile,
                    num_threads=max(1, threads - 1),
                    progress=progress,
                )
                self.tokenizer = Tokenizer(file.read_bytes("tokenizer"), file.manifest.tokenizer)
                return_freed_memory()  # the parsed document, before the next peak
                self.template = None
                if file.has_extent("template"):
                    self.template = ChatTemplate(file.read_bytes("template"), self.tokenizer)
                # numba takes half a second to import: the weights are read meanwhile.
                from engine.forward import Engine  # noqa: PLC0415

                weights = reading.result()
        if self.tokenizer.vocab_size > self.config.vocab_size:
            raise UnsupportedError(
                f"the tokenizer has the id {self.tokenizer.vocab_size - 1}, "
                f"but the embedding only {self.config.vocab_size} rows"
            )
        self.resident_bytes = weights.resident_bytes
        self.engine: Engine = Engine(
            weights,
            num_threads=threads,
            max_rows=max_rows,
            max_positions=max_positions,
            max_outputs=max_outputs,
            max_blocks=max_blocks,
            single_cache=float_profile,
        )

    def __enter__(self) -> Self:
        """Use the model."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the engine's threads."""
        self.engine.close()

    def chat_ids(self, messages: Sequence[dict[str, str]], *, now_unix_s: int) -> list[int]:
        """Return the prompt ids of a conversation.

        Raises:
            TemplateError: the model has no chat template, or it refuses the messages.
        """
        if self.template is None:
            raise TemplateError("the model has no chat template; give it a raw prompt")
        return self.tokenizer.encode_prompt(self.template.render(messages, now_unix_s=now_unix_s))
