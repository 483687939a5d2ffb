"""A model from a VQF file, ready to answer: weights, tokenizer, template, engine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from engine.admission import WeightsPolicy, admit, record_load
from engine.config import ModelConfig, TokenizerConfig
from engine.errors import ConfigError, TemplateError, UnsupportedError
from engine.memory.buffers import return_freed_memory
from engine.memory.load import load_weights
from engine.memory.residency import FULL, Residency
from engine.memory.streamed import StreamedWeights
from engine.text.template import ChatTemplate, Json
from engine.text.tokenizer import Tokenizer
from engine.vqf import VqfFile, open_vqf
from engine.vqf.format import Form
from engine.vqf.unlock import Unlock

if TYPE_CHECKING:
    from engine.forward import Engine
    from engine.grammar.compile import GrammarCompiler
    from engine.kv.budget import KvBudget
    from engine.memory.full import FullWeights
    from engine.memory.mapped import MappedWeights
    from engine.memory.verified import VerifiedWeights

DEFAULT_MAX_ROWS: Final = 512

_NOTHING: Final = Unlock()
_WORTH_KERNELS_BYTES: Final = 256 << 20
"""Below it plain digests are done before numba has been imported."""


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _read(
    file: VqfFile,
    residency: Residency,
    *,
    as_floats: bool,
    num_threads: int,
    progress: Callable[[int, int], None] | None,
) -> FullWeights | MappedWeights | VerifiedWeights:
    """Read the weights, with compiled kernels where they save more time than they cost."""
    is_large = file.preamble.data_length >= _WORTH_KERNELS_BYTES
    if file.form is Form.SEALED or is_large or residency.mode == "verified-stream":
        from crypto.kernels.load import load_bulk  # noqa: PLC0415  (takes numba)

        file.bulk = load_bulk()
    else:
        # Digests leave one core to what is parsed and imported meanwhile.
        num_threads = max(1, num_threads - 1)
    return load_weights(
        file, residency, as_floats=as_floats, num_threads=num_threads, progress=progress
    )


def _close_read(reading: Future[FullWeights | MappedWeights | VerifiedWeights]) -> None:
    """Close streamed weights that nobody took over, also where something else failed meanwhile."""
    if reading.exception() is None:
        weights = reading.result()
        if isinstance(weights, StreamedWeights):
            weights.close()


class Model:
    """Everything that one VQF file gives."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        policy: WeightsPolicy,
        unlock: Unlock = _NOTHING,
        now_unix_s: int | None = None,
        num_threads: int | None = None,
        max_rows: int = DEFAULT_MAX_ROWS,
        max_positions: int | None = None,
        max_outputs: int = 64,
        max_blocks: int | None = None,
        float_profile: bool = False,
        residency: Residency = FULL,
        kv_budget: KvBudget | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Read and check a VQF file, and start the engine.

        Args:
            path: the file; closed again when this returns, with residency full.
            policy: whom its weights are accepted from; the floors rise when they have been loaded.
            unlock: what opens it if it is sealed.
            now_unix_s: the time for the policy's dates, in seconds; by default the clock's.
            num_threads: by default the number of cores that the process may use.
            max_rows: as of `Engine`.
            max_positions: as of `Engine`.
            max_outputs: as of `Engine`.
            max_blocks: as of `Engine`.
            float_profile: run profile `wh1-float` (NUMERICS N13): for comparison, never to serve.
            residency: how the weights are kept.
            kv_budget: as of `Engine`.
            progress: called with (bytes read, bytes in all).

        Raises:
            OSError: the file cannot be opened.
            FormatError: the file breaks a rule of its format.
            PolicyError: the policy does not admit the weights.
            KeyFileError: the file is sealed, and `unlock` does not open it.
            WeightsError: a tag or a digest did not verify.
            WriteError: the floors could not be raised.
            WeightsUncheckedError: the file could not be read.
            UnsupportedError: something in it is not supported, or residency stream of a file that
                is signed or sealed.
            ConfigError: an argument is outside its range.
        """
        threads = usable_cores() if num_threads is None else num_threads
        if threads < 1:
            raise ConfigError(f"num_threads must be at least 1, not {threads}")
        now = int(time.time()) if now_unix_s is None else now_unix_s
        self.residency = residency
        with ExitStack() as opened:
            file = opened.enter_context(open_vqf(Path(path), unlock))
            self.admission = admit(file, policy, now=now)
            self.config: ModelConfig = file.manifest.config
            self.tokenizer_config: TokenizerConfig = file.manifest.tokenizer
            self.model_digest = file.model_digest
            self.signatures = file.signatures
            self.kinds = frozenset(
                tensor.kind
                for extent in file.manifest.extents
                for tensor in extent.tensors
                if len(tensor.shape) > 1
            )
            self.tokenizer_root = file.extent("tokenizer").root
            self.template_root: bytes | None = None
            with ThreadPoolExecutor(max_workers=1) as background:
                reading = background.submit(
                    _read,
                    file,
                    residency,
                    as_floats=float_profile,
                    num_threads=threads,
                    progress=progress,
                )
                opened.callback(_close_read, reading)
                self.tokenizer = Tokenizer(file.read_bytes("tokenizer"), file.manifest.tokenizer)
                return_freed_memory()  # the parsed document, before the next peak
                self.template = None
                if file.has_extent("template"):
                    self.template_root = file.extent("template").root
                    self.template = ChatTemplate(file.read_bytes("template"), self.tokenizer)
                # numba takes half a second to import: the weights are read meanwhile.
                from engine.forward import Engine  # noqa: PLC0415

                weights = reading.result()
            record_load(self.admission, policy)
            if self.tokenizer.vocab_size > self.config.vocab_size:
                raise UnsupportedError(
                    f"the tokenizer has the id {self.tokenizer.vocab_size - 1}, "
                    f"but the embedding only {self.config.vocab_size} rows"
                )
            self.resident_bytes = weights.resident_bytes
            self.locked_bytes = weights.lock()
            self.engine: Engine = Engine(
                weights,
                num_threads=threads,
                max_rows=max_rows,
                max_positions=max_positions,
                max_outputs=max_outputs,
                max_blocks=max_blocks,
                single_cache=float_profile,
                kv_budget=kv_budget,
            )
            if isinstance(weights, StreamedWeights):
                opened.pop_all()  # the file is theirs, and the engine closes it

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

    @cached_property
    def grammars(self) -> GrammarCompiler:
        """The compiler of grammars for this model's vocabulary.

        Raises:
            ConfigError: the model has no id that ends an answer.
        """
        from engine.grammar.compile import GrammarCompiler  # noqa: PLC0415

        eos_ids = self.tokenizer_config.eos_ids
        return GrammarCompiler(self.tokenizer, self.config.vocab_size, eos_ids)

    def chat_ids(
        self,
        messages: Sequence[Mapping[str, Json]],
        *,
        now_unix_s: int,
        tools: Sequence[Json] | None = None,
    ) -> list[int]:
        """Return the prompt ids of a conversation.

        Args:
            messages: as the template wants them.
            now_unix_s: the only clock that the template sees.
            tools: descriptions of functions, for a template that uses them.

        Raises:
            TemplateError: the model has no chat template, or it refuses the messages.
        """
        if self.template is None:
            raise TemplateError("the model has no chat template; give it a raw prompt")
        prompt = self.template.render(messages, now_unix_s=now_unix_s, tools=tools)
        return self.tokenizer.encode_prompt(prompt)
