"""Runs with and without the prefix cache, recorded to compare them by bits.

As a program it prints what `conversation` computed on the kernel path that the process is told.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from engine.forward import Engine, Piece, StepResult
from engine.kv.cache import SequenceCache
from engine.sampling.parameters import SamplingParameters
from engine.scheduler import Scheduler
from engine.sequence import Request
from engine.sequence import Sequence as EngineSequence
from simd.target import TARGET
from tests.engine.kernels.models import MemoryWeights, random_weights
from tests.engine.support import CONFIG, KINDS, Observed, bits, prompt

GREEDY = SamplingParameters(temperature_millionths=0)
KEY, OTHER_KEY = b"k" * 32, b"o" * 32


class Outcome(NamedTuple):
    """What one sequence gave: ids, the patterns of the logits of each choice, the trace root."""

    ids: list[int]
    logits: list[str]
    root: str | None


class Recording(Observed):
    """An engine that keeps the logits of every sequence, as digests."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.logits: dict[SequenceCache, list[str]] = defaultdict(list)

    def step(self, pieces: Sequence[Piece], *, leaves: bool) -> StepResult:
        result = super().step(pieces, leaves=leaves)
        row = 0
        for piece in pieces:
            if piece.num_logits:
                digest = hashlib.sha256(bits(result.logits[row])).hexdigest()
                self.logits[piece.cache].append(digest)
                row += piece.num_logits
        return result

    def outcome(self, sequence: EngineSequence) -> Outcome:
        root = sequence.trace_root
        return Outcome(
            sequence.output_ids, self.logits[sequence.cache], root.hex() if root else None
        )


def recorded(engine: Engine, **limits: int) -> tuple[Recording, Scheduler]:
    """Return a recording engine and a scheduler on it."""
    recording = Recording(engine)
    settings = {"prefill_tokens": 40, "max_running": 3, **limits}
    return recording, Scheduler(recording, **settings)  # type: ignore[arg-type]


def drain(scheduler: Scheduler) -> None:
    """Step until idle."""
    steps = 0
    while not scheduler.is_idle:
        scheduler.step()
        steps += 1
        assert steps < 2000


def cold(engine: Engine, request: Request) -> Outcome:
    """Run a request alone, without the prefix cache."""
    recording, scheduler = recorded(engine)
    sequence = scheduler.add(request)
    drain(scheduler)
    assert sequence.cached_tokens == 0
    return recording.outcome(sequence)


def branching(blocks: int, tail: int, key: int = 0) -> tuple[int, ...]:
    """Return whole blocks that are the same for every key, and a tail that is not."""
    return prompt(64 * blocks, 50) + prompt(tail, 51 + key)


def conversation(engine: Engine, cache_key: bytes | None) -> list[Outcome]:
    """Run three turns of which each continues the one before, beside another of their prompt."""
    recording, scheduler = recorded(engine)
    ids, outcomes = branching(1, 20), []
    for turn in range(3):
        turns = [
            scheduler.add(Request(ids + extra, 30, GREEDY), cache_key=cache_key)
            for extra in ((), (7,))
        ]
        drain(scheduler)
        outcomes += [recording.outcome(sequence) for sequence in turns]
        ids += (*turns[0].output_ids, *prompt(5, 60 + turn))
        cached = [sequence.cached_tokens for sequence in turns]
        assert cached[0] == (64 * (0, 1, 2)[turn] if cache_key else 0)
    return outcomes


def main() -> None:
    """Print the conversation with the cache and without."""
    engine = Engine(MemoryWeights(CONFIG, random_weights(CONFIG, KINDS)), num_threads=2)
    found = [conversation(engine, key) for key in (None, KEY)]
    engine.close()
    json.dump({"path": TARGET.path, "outcomes": found}, sys.stdout)


if __name__ == "__main__":
    main()
