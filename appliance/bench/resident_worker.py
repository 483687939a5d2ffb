"""The process whose memory is measured: it loads a model, reads a prompt and answers, once.

It says in JSON lines how far it is, and ends when its stdin does, so that it can be looked at while
everything is still there. Only what an answer needs is imported.
"""

from __future__ import annotations

import gc
import json
import shutil
import struct
import sys
import time
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from appliance.bench.cgroup import NotMeasurableError
from crypto.errors import CryptoError
from crypto.keys import load_private_key
from crypto.secret import Secret, read_secret
from crypto.signer import SoftwareUnwrapper
from crypto.sm3 import Sm3
from engine.admission import DEV
from engine.errors import EngineError
from engine.forward import Piece
from engine.kv.blocks import BLOCK_POSITIONS
from engine.kv.budget import KvBudget
from engine.kv.synthetic import append_synthetic
from engine.memory.residency import Residency
from engine.model import Model
from engine.sampling.parameters import SamplingParameters
from engine.scheduler import Scheduler
from engine.sequence import Request
from engine.vqf.unlock import Unlock

_GREEDY = SamplingParameters(seed=1, temperature_millionths=0)
_PROMPT_SEED = 0


def run(settings: dict[str, Any]) -> None:
    """Do what the settings say: those of `MemoryPlan.as_settings`.

    Raises:
        EngineError, CryptoError, OSError: the model could not be loaded, or could not answer.
    """
    started_s = time.perf_counter()
    with ExitStack() as stack:
        unlock = _unlock(settings, stack)
        model = stack.enter_context(_model(settings, unlock))
        _say("loaded", load_s=time.perf_counter() - started_s, **_facts(model))
        if settings["kv_folder"] is not None:
            _require_space(model, Path(settings["kv_folder"]))
        answer = _answer_synthetic if settings["is_synthetic"] else _answer
        _say(
            "answered",
            **answer(model, settings),
            compiled_functions=_num_compiled(),
            kv={
                "blocks": model.engine.blocks.num_used,
                "block_bytes": model.engine.blocks.block_bytes,
                "spilled_at_most": model.engine.blocks.most_spilled,
                "in_memory_bytes": model.engine.blocks.allocated_bytes,
            },
        )
        sys.stdin.read()


def _answer(model: Model, settings: dict[str, Any]) -> dict[str, object]:
    """Prefill a random prompt and answer it."""
    prompt_tokens = settings["context"] - settings["tokens"]
    rng = np.random.default_rng(_PROMPT_SEED)
    ids = rng.integers(0, model.tokenizer.vocab_size, prompt_tokens)
    request = Request(tuple(map(int, ids)), settings["tokens"], _GREEDY)
    scheduler = Scheduler(model.engine, prefill_tokens=settings["chunk"], max_running=1)
    sequence = scheduler.add(request)
    steps: list[float] = []
    prefill_s = 0.0
    while sequence.finish_reason is None:
        before_s = time.perf_counter()
        scheduler.step()
        steps.append(time.perf_counter() - before_s)
        if len(sequence.output_ids) == 1:
            prefill_s, steps = sum(steps), []
            _say("prefilled")
    if sequence.error is not None:
        raise sequence.error
    output = [int(each) for each in sequence.output_ids]
    root = sequence.trace_root
    return {
        "prompt_tokens": prompt_tokens,
        "prefill_s": prefill_s,
        "steps_s": steps,
        "token_ids": output,
        "ids_digest": ids_digest(output),
        "trace_root": None if root is None else root.hex(),
    }


def _answer_synthetic(model: Model, settings: dict[str, Any]) -> dict[str, object]:
    """Fill the cache with positions that nobody computed, and decode behind them."""
    engine = model.engine
    num_blocks = (settings["context"] - settings["tokens"]) // BLOCK_POSITIONS
    cache = engine.new_cache(settings["context"])
    begun_s = time.perf_counter()
    append_synthetic(cache, num_blocks)
    fill_s = time.perf_counter() - begun_s
    _say("prefilled")
    steps, output, logits = [], [0], Sm3(b"")
    for _ in range(settings["tokens"]):
        before_s = time.perf_counter()
        result = engine.step([Piece(cache, np.array(output[-1:], np.int32), 1)])
        steps.append(time.perf_counter() - before_s)
        if result.errors[0] is not None:
            raise result.errors[0]
        logits.update(result.logits.tobytes())
        output.append(int(result.logits[0].argmax()))
    return {
        "synthetic": {
            "positions": num_blocks * BLOCK_POSITIONS,
            "fill_s": fill_s,
            "logits_digest": logits.digest().hex(),
        },
        "steps_s": steps,
        "token_ids": output[1:],
        "ids_digest": ids_digest(output[1:]),
        "trace_root": None,
    }


def ids_digest(ids: list[int]) -> str:
    """Return SM3 over token ids as 32-bit numbers, little-endian, in hexadecimal."""
    state = Sm3(b"")
    state.update(struct.pack(f"<{len(ids)}I", *ids))
    return state.digest().hex()


def _model(settings: dict[str, Any], unlock: Unlock) -> Model:
    others: dict[str, Any] = {}
    if settings["kv_budget_bytes"] is not None:
        budget = KvBudget(Path(settings["kv_folder"]), settings["kv_budget_bytes"])
        others["kv_budget"] = budget
    return Model(
        settings["file"],
        policy=DEV,
        unlock=unlock,
        num_threads=settings["threads"],
        max_rows=settings["chunk"],
        max_positions=settings["context"],
        max_outputs=1,
        max_blocks=-(-settings["context"] // BLOCK_POSITIONS),
        residency=Residency(**settings["residency"]),
        **others,
    )


def _require_space(model: Model, folder: Path) -> None:
    """Refuse a disk that does not hold the whole key/value cache."""
    blocks = model.engine.blocks
    needed = -(-model.engine.max_positions // BLOCK_POSITIONS) * blocks.block_bytes
    free = shutil.disk_usage(folder).free
    if free < needed:
        message = f"the key/value cache needs {needed} bytes of disk, and {free} are free"
        raise NotMeasurableError("disk", message)


def _unlock(settings: dict[str, Any], stack: ExitStack) -> Unlock:
    """Read the keys and the passphrase that the settings name; all are wiped with the stack."""

    @cache
    def secret(source: str) -> Secret:
        return stack.enter_context(read_secret(source))

    source = settings["key_passphrase"]
    wanted = None if source is None else lambda: secret(source).value
    keys = []
    for name in settings["keys"]:
        key = load_private_key(Path(name), passphrase=wanted, role="unseal")
        stack.callback(key.wipe)
        keys.append(key)
    weights = settings["passphrase"]
    return Unlock(
        tuple(map(SoftwareUnwrapper, keys)), None if weights is None else secret(weights).value
    )


def _facts(model: Model) -> dict[str, object]:
    from simd.target import TARGET, kernel_sources_digest  # noqa: PLC0415 - the model brought it

    return {
        "model_digest": model.model_digest.hex(),
        "kernel_path": TARGET.path,
        "kernel_sources": kernel_sources_digest(),
        "weights_resident_bytes": model.resident_bytes,
        "weights_locked_bytes": model.locked_bytes,
        "threads": model.engine.num_threads,
    }


def _num_compiled() -> int:
    """Return how many functions were compiled, for no cache had them."""
    from numba.core.dispatcher import Dispatcher  # noqa: PLC0415 - the engine brought it

    found = [each for each in gc.get_objects() if isinstance(each, Dispatcher)]
    return sum(sum(dispatcher.stats.cache_misses.values()) for dispatcher in found)


def _say(phase: str, **facts: object) -> None:
    print(json.dumps({"phase": phase, **facts}), flush=True)  # noqa: T201 - the protocol


def main() -> int:
    """Run with the settings of the first argument; a failure is one line and exit code 1."""
    try:
        run(json.loads(sys.argv[1]))
    except (EngineError, CryptoError, OSError, MemoryError) as error:
        kind, reason = type(error).__name__, getattr(error, "reason", None)
        _say("failed", error=str(error) or kind, kind=kind, reason=reason)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
