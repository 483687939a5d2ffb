"""A4: single units, each executed from the committed states before it, with few of the weights."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from appliance.audit.challenge import Challenge
from appliance.audit.claimed import Claimed
from appliance.audit.findings import A4, FailedError, Findings, OpenError
from appliance.audit.grammars import FileGrammars, answered_of
from appliance.audit.make_opening import distinct
from appliance.audit.opening import OpenedUnit, Opening, decode_opening
from crypto.errors import FormatError
from crypto.kernels.load import load_bulk
from crypto.merkle import LEAF_PREFIX, root
from crypto.sm3_rows import RowHasher
from engine.audit.challenge import units
from engine.audit.execute import run_choices, run_embedding, run_layer
from engine.audit.replay import root_of_layers
from engine.audit.unit_weights import PartReader
from engine.errors import ConfigError, NonFiniteError, SamplingError

EMBEDDING, LAYER, CHOICE = "embedding rows", "layers", "token choices"
_WORDS = {
    EMBEDDING: "the sampled embedding rows are those of the ids",
    LAYER: "the sampled layers give the committed states",
    CHOICE: "the sampled tokens follow from the last states",
}


def check_opening(
    findings: Findings,
    claimed: Claimed,
    unverified_opening: bytes,
    challenge: Challenge | None,
    reader: PartReader,
    *,
    num_threads: int,
    progress: Callable[[int, int], None] | None = None,
) -> Opening | None:
    """Make the steps of A4; return the opening if it could be read.

    Args:
        findings: steps are added to it.
        claimed: the bundle.
        unverified_opening: bytes from anywhere.
        challenge: what the auditor drew for this statement, None if he drew nothing.
        reader: the weights, of which only what the units need is read.
        num_threads: how many threads compute.
        progress: called with (units done, units in all).
    """
    opening: Opening | None = None

    def read() -> None:
        nonlocal opening
        try:
            opening = decode_opening(unverified_opening, claimed.extent, reader.config.hidden_size)
        except FormatError:
            raise FailedError("opening-format") from None
        if opening.statement != claimed.statement_digest:
            raise FailedError("opening-statement")
        wanted = units(opening.statement, opening.challenge, opening.count, claimed.extent)
        if tuple(opened.unit for opened in opening.units) != distinct(wanted):
            raise FailedError("opening-units")

    findings.after(
        ("model",), A4, "opening", "the opening holds the units that its challenge asks for", read
    )
    findings.after(
        ("opening",),
        A4,
        "challenge",
        "the auditor drew the challenge, once, for this statement",
        lambda: _check_challenge(opening, challenge),
    )
    findings.after(
        ("opening",),
        A4,
        "columns",
        "the opened states are those that the trace commits to",
        lambda: _check_columns(opening, claimed, RowHasher(load_bulk(), num_threads=num_threads)),
    )
    if not findings.passed("columns") or opening is None:
        for name, words in _WORDS.items():
            findings.skip(A4, name, words)
        return opening
    _Units(findings, claimed, opening, reader, num_threads, progress).check()
    return opening


def _check_challenge(opening: Opening | None, challenge: Challenge | None) -> None:
    if challenge is None:
        raise OpenError("challenge-not-drawn")
    mine = (challenge.statement, challenge.drawn, challenge.count)
    if opening is None or mine != (opening.statement, opening.challenge, opening.count):
        raise OpenError("challenge-foreign")


def _check_columns(opening: Opening | None, claimed: Claimed, hasher: RowHasher) -> None:
    wanted = claimed.trace_root
    if opening is None or root_of_layers(opening.roots) != wanted:
        raise FailedError("opening-roots")
    last = len(opening.roots) - 1
    for opened in opening.units:
        t, layer = opened.unit
        leaves = [leaf.tobytes() for leaf in opened.leaves]
        leaves.insert(t, _leaves(opened.state[np.newaxis], hasher)[0])
        if root(leaves) != opening.roots[min(layer, last)]:
            raise FailedError("opening-columns", t)
        if opened.below is not None and opened.below_leaves is not None:
            others = [leaf.tobytes() for leaf in opened.below_leaves]
            if root([*_leaves(opened.below, hasher), *others]) != opening.roots[layer - 1]:
                raise FailedError("opening-columns", t)


def _leaves(states: NDArray[np.float32], hasher: RowHasher) -> list[bytes]:
    return [leaf.tobytes() for leaf in hasher.hash_rows(LEAF_PREFIX, states)]


class _Units:
    """The units of an opening, grouped by the weights that they need."""

    def __init__(
        self,
        findings: Findings,
        claimed: Claimed,
        opening: Opening,
        reader: PartReader,
        num_threads: int,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self._findings = findings
        self._claimed = claimed
        self._reader = reader
        self._num_threads = num_threads
        self._progress = progress
        self._done, self._total = 0, len(opening.units)
        self._groups: dict[int, list[OpenedUnit]] = defaultdict(list)
        for opened in opening.units:
            self._groups[opened.unit.layer].append(opened)
        self._head = len(opening.roots)

    def check(self) -> None:
        """Make the three steps; one without units in the sample passes."""
        makers = {
            EMBEDDING: self._check_embedding,
            LAYER: self._check_layers,
            CHOICE: self._check_choices,
        }
        for name, check in makers.items():
            self._findings.after((), A4, name, _WORDS[name], check)

    def _advance(self, count: int) -> None:
        self._done += count
        if self._progress is not None:
            self._progress(self._done, self._total)

    def _check_embedding(self) -> None:
        group = self._groups.get(0, [])
        if not group:
            return
        ids = self._claimed.prompt_ids + self._claimed.output_ids
        wanted = [ids[opened.unit.position] for opened in group]
        try:
            rows = run_embedding(self._reader.embedding(), wanted, num_threads=self._num_threads)
        except (NonFiniteError, ConfigError):
            raise FailedError("embedding-row", group[0].unit.position) from None
        for opened, row in zip(group, rows, strict=True):
            if not _equal(row, opened.state):
                raise FailedError("embedding-row", opened.unit.position)
        self._advance(len(group))

    def _check_layers(self) -> None:
        for layer in sorted(self._groups.keys() - {0, self._head}):
            weights = self._reader.layer(layer)
            for opened in self._groups[layer]:
                position = opened.unit.position
                if opened.below is None:
                    raise FailedError("opening-units", position)
                try:
                    state = run_layer(weights, opened.below, num_threads=self._num_threads)
                except NonFiniteError:
                    raise FailedError("layer", position) from None
                if not _equal(state, opened.state):
                    raise FailedError("layer", position)
                self._advance(1)

    def _check_choices(self) -> None:
        group = self._groups.get(self._head, [])
        if not group:
            return
        answered = answered_of(self._claimed, FileGrammars(self._reader.file))
        positions = [opened.unit.position for opened in group]
        states = np.stack([opened.state for opened in group])
        try:
            choices = run_choices(
                self._reader.head(), states, positions, answered, num_threads=self._num_threads
            )
        except (NonFiniteError, SamplingError):
            raise FailedError("choice", positions[0]) from None
        except ConfigError:
            raise FailedError("parameters") from None
        first = len(answered.prompt_ids) - 1
        for position, token_id in zip(positions, choices, strict=True):
            if token_id != answered.output_ids[position - first]:
                raise FailedError("choice", position + 1)
        self._advance(len(group))


def _equal(one: NDArray[np.float32], other: NDArray[np.float32]) -> bool:
    """Compare patterns: zeros of either sign are different."""
    return one.tobytes() == other.tobytes()
