"""A4 executes sampled units with few weights, and finds a wrong unit when it is drawn."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from appliance.attestation import Answer, Attestor
from appliance.audit.challenge import Challenge
from appliance.audit.claimed import Claimed, read_claimed
from appliance.audit.findings import Findings, Result
from appliance.audit.make_opening import make_opening
from appliance.audit.opening import OpenedUnit, Opening, decode_opening
from appliance.audit.text_steps import check_model
from appliance.audit.unit_steps import check_opening
from appliance.audit.weights import FileIdentity
from crypto.errors import FormatError
from crypto.merkle import leaf_hash, root
from engine.audit.answered import Answered
from engine.audit.challenge import Unit, units
from engine.audit.replay import replay, root_of_layers
from engine.audit.unit_weights import PartReader
from engine.model import Model
from engine.vqf import VqfFile, open_vqf
from tests.appliance.audit.case import Lie, attested

DRAWN = bytes(range(32))
COUNT = 96
"""So many that each kind of unit of the tiny model is drawn, but for one chance in ten million."""


@pytest.fixture
def file(tiny_file: Path) -> Iterator[VqfFile]:
    """The weights, open."""
    with open_vqf(tiny_file) as file:
        yield file


@pytest.fixture
def claimed(attestor: Attestor, tiny_model: Model) -> Claimed:
    """An honest answer."""
    return read_claimed(attested(attestor, tiny_model)[0].encode())


def check(
    claimed: Claimed,
    opening: bytes,
    file: VqfFile,
    *,
    challenge: Challenge | None = None,
    num_threads: int = 1,
) -> Findings:
    """Make all steps of A4."""
    findings = Findings()
    mine = challenge or Challenge(claimed.statement_digest, DRAWN, COUNT)
    check_model(findings, claimed, FileIdentity(file))
    check_opening(findings, claimed, opening, mine, PartReader(file), num_threads=num_threads)
    return findings


def failed(findings: Findings) -> list[tuple[str, str | None]]:
    return [(s.name, s.reason) for s in findings if s.result is Result.FAILED]


@pytest.mark.parametrize("num_threads", [1, 2])
def test_an_honest_opening_passes(
    claimed: Claimed, tiny_model: Model, file: VqfFile, num_threads: int
) -> None:
    opening = make_opening(claimed, tiny_model.engine, DRAWN, COUNT)
    drawn = {opened.unit.layer for opened in opening.units}
    assert drawn == set(range(tiny_model.config.num_layers + 2))  # every kind of unit is there
    findings = check(claimed, opening.encode(), file, num_threads=num_threads)
    assert findings.verdict == ("PASS", "ok")


def test_an_opening_is_read_as_it_was_written(claimed: Claimed, tiny_model: Model) -> None:
    data = make_opening(claimed, tiny_model.engine, DRAWN, COUNT).encode()
    width = tiny_model.config.hidden_size
    assert decode_opening(data, claimed.extent, width).encode() == data
    for wrong in (b"", data[:-1], data + b"\0", b"\xa0"):
        with pytest.raises(FormatError):
            decode_opening(wrong, claimed.extent, width)
    with pytest.raises(FormatError):
        decode_opening(data, claimed.extent, width + 32)


def test_only_the_weights_of_the_unit_are_read(
    claimed: Claimed, tiny_model: Model, file: VqfFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the system hands out is counted, not what this program says of itself."""
    opening = make_opening(claimed, tiny_model.engine, DRAWN, 1)
    (unit,) = (opened.unit for opened in opening.units)
    handed_out = 0
    read = os.preadv

    def counting(descriptor, buffers, offset):
        nonlocal handed_out
        count = read(descriptor, buffers, offset)
        handed_out += count
        return count

    monkeypatch.setattr(os, "preadv", counting)
    reader = PartReader(file)
    findings = Findings()
    mine = Challenge(claimed.statement_digest, DRAWN, 1)
    check_model(findings, claimed, FileIdentity(file))
    check_opening(findings, claimed, opening.encode(), mine, reader, num_threads=1)
    assert findings.verdict == ("PASS", "ok")
    sizes = {extent.name: extent.size_bytes for extent in file.manifest.extents}
    last = tiny_model.config.num_layers + 1
    assert not tiny_model.config.tied_embeddings
    names = {0: ["embedding"], last: ["final"]}
    wanted = names.get(unit.layer, [f"layers.{unit.layer - 1}"])
    assert handed_out == reader.bytes_read == sum(sizes[name] for name in wanted)


@pytest.mark.parametrize(
    ("challenge", "reason"),
    [
        (Challenge(bytes(32), DRAWN, COUNT), "challenge-foreign"),
        ("other", "challenge-foreign"),
        ("fewer", "challenge-foreign"),
    ],
)
def test_a_challenge_that_was_not_drawn_for_it_proves_nothing(
    claimed: Claimed, tiny_model: Model, file: VqfFile, challenge, reason: str
) -> None:
    if challenge == "other":
        challenge = Challenge(claimed.statement_digest, bytes(32), COUNT)
    elif challenge == "fewer":
        challenge = Challenge(claimed.statement_digest, DRAWN, COUNT + 1)
    opening = make_opening(claimed, tiny_model.engine, DRAWN, COUNT).encode()
    findings = check(claimed, opening, file, challenge=challenge)
    assert findings.verdict == ("INCOMPLETE", reason)
    findings = Findings()
    check_model(findings, claimed, FileIdentity(file))
    check_opening(findings, claimed, opening, None, PartReader(file), num_threads=1)
    assert findings.verdict == ("INCOMPLETE", "challenge-not-drawn")


def with_unit(opening: Opening, index: int, **changes) -> bytes:
    units = list(opening.units)
    units[index] = replace(units[index], **changes)
    return replace(opening, units=tuple(units)).encode()


def test_every_part_of_an_opening_is_bound_to_the_trace(
    claimed: Claimed, tiny_model: Model, file: VqfFile
) -> None:
    opening = make_opening(claimed, tiny_model.engine, DRAWN, COUNT)
    index = next(
        i
        for i, opened in enumerate(opening.units)
        # A unit at the last position has no leaves behind its own.
        if opened.below_leaves is not None and len(opened.below_leaves) > 0
    )
    opened = opening.units[index]
    for name in ("state", "leaves", "below", "below_leaves"):
        changed = getattr(opened, name).copy()
        changed.view(np.uint8).reshape(-1)[-1] ^= 1
        findings = check(claimed, with_unit(opening, index, **{name: changed}), file)
        assert failed(findings) == [("columns", "opening-columns")]
    roots = (bytes(32), *opening.roots[1:])
    findings = check(claimed, replace(opening, roots=roots).encode(), file)
    assert failed(findings) == [("columns", "opening-roots")]
    fewer = replace(opening, units=opening.units[1:])
    assert failed(check(claimed, fewer.encode(), file)) == [("opening", "opening-units")]
    foreign = replace(opening, statement=bytes(32))
    assert failed(check(claimed, foreign.encode(), file)) == [("opening", "opening-statement")]
    assert failed(check(claimed, b"\xa0", file)) == [("opening", "opening-format")]


class Forger:
    """Commits to a trace of its own making, and opens it consistently."""

    def __init__(self, attestor: Attestor, model: Model, column: int) -> None:
        """Alter x(t, column) of every position by one bit."""
        self.states: np.ndarray
        self.model = model

        def change(answer: Answer) -> Answer:
            assert answer.output_ids is not None
            kept = []
            honest = read_claimed(attested(attestor, model)[0].encode()).answered
            answered = Answered(honest.prompt_ids, answer.output_ids, honest.sampling)
            replay(model.engine, answered, observe=lambda _f, states, _l: kept.append(states))
            self.states = np.concatenate(kept, axis=1)
            self.states[column].view(np.uint32)[:, 7] ^= 1
            return replace(answer, trace_root=root_of_layers(self.roots()))

        bundle, _ = attested(attestor, model, Lie(change=change))
        self.claimed = read_claimed(bundle.encode())

    def leaves(self, column: int) -> list[bytes]:
        return [leaf_hash(row.tobytes()) for row in self.states[column]]

    def roots(self) -> tuple[bytes, ...]:
        return tuple(root(self.leaves(column)) for column in range(len(self.states)))

    def open(self, drawn: bytes, count: int) -> Opening:
        """Answer a challenge with the forged states."""
        digest, extent = self.claimed.statement_digest, self.claimed.extent
        asked = dict.fromkeys(units(digest, drawn, count, extent))
        return Opening(digest, drawn, count, self.roots(), tuple(map(self._unit, asked)))

    def _unit(self, unit: Unit) -> OpenedUnit:
        t, layer = unit
        column = min(layer, len(self.states) - 1)
        others = self.leaves(column)
        del others[t]
        opened = OpenedUnit(unit, self.states[column, t], _array(others))
        if not 1 <= layer < len(self.states):
            return opened
        rest = _array(self.leaves(layer - 1)[t + 1 :])
        return replace(opened, below=self.states[layer - 1, : t + 1], below_leaves=rest)


def _array(hashes: list[bytes]) -> np.ndarray:
    return np.frombuffer(b"".join(hashes), np.uint8).reshape(len(hashes), 32)


@pytest.mark.parametrize(("column", "name"), [(0, "embedding rows"), (1, "layers"), (2, "layers")])
def test_one_changed_layer_is_found_where_it_is_drawn(
    attestor: Attestor, tiny_model: Model, file: VqfFile, column: int, name: str
) -> None:
    forger = Forger(attestor, tiny_model, column)
    opening = forger.open(DRAWN, COUNT)
    findings = check(forger.claimed, opening.encode(), file)
    assert name in [step for step, _ in failed(findings)]
    # What is drawn elsewhere does not show it.
    digest, extent = forger.claimed.statement_digest, forger.claimed.extent
    elsewhere = next(
        drawn
        for drawn in (bytes([number] * 32) for number in range(256))
        if units(digest, drawn, 1, extent)[0].layer not in (column, column + 1)
    )
    mine = Challenge(digest, elsewhere, 1)
    findings = check(forger.claimed, forger.open(elsewhere, 1).encode(), file, challenge=mine)
    assert findings.verdict == ("PASS", "ok")


def test_ids_of_a_cheap_model_are_found_by_token_choices(
    attestor: Attestor, tiny_model: Model, other_model: Model, file: VqfFile
) -> None:
    honest = read_claimed(attested(attestor, tiny_model)[0].encode()).answered

    def change(answer: Answer) -> Answer:
        assert answer.output_ids is not None
        answered = replace(honest, output_ids=answer.output_ids)
        return replace(answer, trace_root=replay(tiny_model.engine, answered).trace_root)

    bundle, _ = attested(attestor, tiny_model, Lie(model=other_model, change=change))
    claimed = read_claimed(bundle.encode())
    opening = make_opening(claimed, tiny_model.engine, DRAWN, 200)
    mine = Challenge(claimed.statement_digest, DRAWN, 200)
    findings = check(claimed, opening.encode(), file, challenge=mine)
    assert failed(findings) == [("token choices", "choice")]
