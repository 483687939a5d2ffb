"""A process that holds one engine and measures on request: JSON lines in, JSON lines out.

The benchmark starts one for each number of threads, so that its own memory and imports have no part
in what is measured, and keeps it while rounds alternate with the rival; between requests its
threads sleep.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from appliance.bench.cases import Case
from appliance.bench.synthetic import SyntheticWeights, config_8b
from engine.admission import DEV
from engine.errors import EngineError
from engine.forward import Engine, Piece
from engine.generate import generate
from engine.kv.cache import SequenceCache
from engine.model import Model
from engine.sampling.parameters import SamplingParameters
from engine.sampling.sampler import Sampler
from engine.sequence import Request
from engine.trace import Trace
from simd.target import TARGET, kernel_sources_digest

_CHUNK = 512
_SAMPLING = SamplingParameters(seed=1, temperature_millionths=800_000, top_p_millionths=950_000)


class Bench:
    """An engine and its measurements."""

    def __init__(self, engine: Engine, model: Model | None = None) -> None:
        """Measure on this engine; with `model` also whole answers."""
        self._engine = engine
        self._model = model
        rng = np.random.default_rng(0)
        vocab, longest = engine.config.vocab_size, engine.max_positions
        self._ids = rng.integers(0, vocab, longest).astype(np.int32)

    def measure(self, case: Case, *, trace: bool) -> float:
        """Return the seconds that one case takes; what lies before its depth is not counted."""
        cache = self._engine.new_cache(case.end)
        engine = self._engine
        hashes = Trace(engine.config.num_layers, engine.row_hasher) if trace else None
        self._advance(cache, case.depth, hashes, last_logits=False)
        started_s = time.perf_counter()
        if case.phase == "prefill":
            self._advance(cache, case.tokens, hashes, last_logits=True)
        else:
            for _ in range(case.tokens):
                self._advance(cache, 1, hashes, last_logits=True)
        if hashes is not None:
            hashes.root()
        seconds = time.perf_counter() - started_s
        cache.release()
        return seconds

    def _advance(
        self, cache: SequenceCache, tokens: int, hashes: Trace | None, *, last_logits: bool
    ) -> NDArray[np.float32]:
        """Add positions in chunks; the logits of the last one are computed if they are wanted."""
        end = cache.num_positions + tokens
        logits = np.empty(0, np.float32)
        while cache.num_positions < end:
            start = cache.num_positions
            ids = self._ids[start : min(start + _CHUNK, end)]
            wanted = int(last_logits and start + len(ids) == end)
            result = self._engine.step([Piece(cache, ids, wanted)], leaves=hashes is not None)
            if result.errors[0] is not None:
                raise result.errors[0]
            if hashes is not None and result.leaves is not None:
                hashes.append(result.leaves)
            if wanted:
                logits = result.logits[0]
        return logits

    def sampling(self, tokens: int) -> dict[str, float]:
        """Return the mean time of a decode step and of choosing a token from its logits.

        The model continues its own text, so that the logits are those of real use.
        """
        engine = self._engine
        sampler = Sampler(_SAMPLING, engine.config.vocab_size)
        greedy = Sampler(SamplingParameters(temperature_millionths=0), engine.config.vocab_size)
        cache = engine.new_cache(tokens + 1)
        choice = 1
        spent = np.zeros(3)
        for position in range(tokens + 1):
            ids = np.array([choice], np.int32)
            laps = [time.perf_counter()]
            logits = engine.step([Piece(cache, ids, 1)]).logits[0]
            laps.append(time.perf_counter())
            choice = sampler.sample(logits, (), [], position).id
            laps.append(time.perf_counter())
            greedy.sample(logits, (), [], position)
            laps.append(time.perf_counter())
            if position:  # the first loads what is loaded on first use
                spent += np.diff(laps)
        cache.release()
        step_s, sample_s, greedy_s = (float(value) / tokens for value in spent)
        return {"step_s": step_s, "sample_s": sample_s, "greedy_s": greedy_s}

    def answer(self, prompt_tokens: int, max_tokens: int) -> None:
        """Give one whole answer with its trace, as the command line does."""
        if self._model is None:
            raise EngineError("there is no tokenizer to answer with")
        prompt = tuple(int(i) for i in self._ids[:prompt_tokens])
        generate(self._model, Request(prompt, max_tokens, _SAMPLING))


def answer_once(path: str, threads: int, prompt_tokens: int, max_tokens: int) -> None:
    """Load a model and give one answer: what a process's peak memory is measured on."""
    model = Model(Path(path), policy=DEV, num_threads=threads)
    with model:
        Bench(model.engine, model).answer(prompt_tokens, max_tokens)


def serve(settings: dict[str, Any]) -> None:
    """Load what the settings name, then answer requests until stdin ends.

    Settings are `threads`, `max_positions`, and `file`, or `kind` and `num_layers` of an 8B shape.
    A request is `{"do": "measure", "phase": ..., "tokens": ..., "depth": ..., "trace": ...}` or
    `{"do": "sampling", "tokens": ...}`; a reply is `{"value": {...}}` or `{"error": ...}`.
    """
    threads, positions = settings["threads"], settings["max_positions"]
    model = None
    if "file" in settings:
        model = Model(settings["file"], policy=DEV, num_threads=threads, max_positions=positions)
        engine, facts = model.engine, {"model_digest": model.model_digest.hex()}
        resident = model.resident_bytes
    else:
        config = config_8b(settings["num_layers"], context_tokens=positions)
        weights = SyntheticWeights(config, settings["kind"])
        engine, facts, resident = Engine(weights, num_threads=threads), {}, weights.resident_bytes
    bench = Bench(engine, model)
    facts |= {"kernel_path": TARGET.path, "kernel_sources": kernel_sources_digest()}
    _reply({"value": {**facts, "resident_bytes": resident}})
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "sampling":
            _reply({"value": bench.sampling(request["tokens"])})
            continue
        case = Case(request["phase"], request["tokens"], request["depth"])
        _reply({"value": {"seconds": bench.measure(case, trace=request["trace"])}})
    engine.close()


def _reply(value: dict[str, object]) -> None:
    print(json.dumps(value), flush=True)  # noqa: T201 - the protocol of this process


def main() -> int:
    """Serve, or with `answer_once` give one answer; a failure is one line and exit code 1."""
    settings = json.loads(sys.argv[1])
    try:
        if "answer_once" in settings:
            answer_once(**settings["answer_once"])
        else:
            serve(settings)
    except (EngineError, OSError) as error:
        _reply({"error": str(error), "kind": type(error).__name__})
        print(error, file=sys.stderr)  # noqa: T201 - where `answer_once` is looked for
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
