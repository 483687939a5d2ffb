"""The anchor: its bytes, its file, and when it is written."""

from __future__ import annotations

import time
from types import MappingProxyType

import pytest

from appliance.log import keeper
from appliance.log.anchor import Anchor, FileAnchor, decode_anchor, higher_floors
from appliance.log.errors import LogDamageError
from appliance.log.keeper import INTERVAL_S
from appliance.log.objects import Head
from crypto.cbor import encode
from crypto.errors import FormatError, UnavailableError
from crypto.floors import Floors, encode_floors
from crypto.labels import LOG_ANCHOR
from crypto.sm3 import sm3
from tests.appliance.log.case import entry

FLOORS = Floors(MappingProxyType({"demo": 3}), 7)
ANCHOR = Anchor(b"i" * 32, 5, b"r" * 32, 99, FLOORS)


class Memory:
    """An anchor in memory, which counts its writes."""

    def __init__(self):
        self.anchors = []

    def read(self):
        return self.anchors[-1] if self.anchors else None

    def write(self, anchor):
        self.anchors.append(anchor)


def sealed(entries):
    body = LOG_ANCHOR + encode(entries)
    return body + sm3(body)


def test_an_anchor_is_read_as_it_was_written(tmp_path):
    store = FileAnchor(tmp_path / "anchor")
    assert store.read() is None
    store.write(ANCHOR)
    assert store.read() == ANCHOR
    assert store.path.stat().st_mode & 0o777 == 0o600
    assert store.path.read_bytes() == ANCHOR.encode()


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"size": 0}, "value-range"),
        ({"size": 1 << 53}, "value-range"),
        ({"root": bytes(31)}, "value-range"),
        ({"log_id": "text"}, "value-type"),
        ({"floors": encode_floors(FLOORS)[:-1]}, "floors-digest"),
        ({"more": 1}, "unknown-key"),
    ],
    ids=str,
)
def test_what_is_no_anchor_is_refused(change, rule):
    entries = {
        "log_id": b"i" * 32, "size": 5, "root": b"r" * 32, "floors": encode_floors(FLOORS),
        "time_ms": 99,
    }  # fmt: skip
    assert decode_anchor(sealed(entries)) == ANCHOR
    with pytest.raises(FormatError) as caught:
        decode_anchor(sealed(entries | change))
    assert caught.value.rule == rule


@pytest.mark.parametrize("data", [b"", b"x", bytes(31), ANCHOR.encode()[:-1]], ids=len)
def test_what_has_no_digest_is_refused(data):
    with pytest.raises(FormatError):
        decode_anchor(data)


def test_a_place_that_cannot_be_read_is_no_missing_anchor(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UnavailableError):
        FileAnchor(tmp_path / "file" / "anchor").read()
    (tmp_path / "folder").mkdir(mode=0o700)
    with pytest.raises(LogDamageError) as caught:
        FileAnchor(tmp_path / "folder").read()
    assert caught.value.reason == "anchor-damaged"


def test_floors_only_rise():
    other = Floors(MappingProxyType({"demo": 2, "more": 1}), 8)
    both = higher_floors(FLOORS, other)
    assert dict(both.releases) == {"demo": 3, "more": 1}
    assert both.revocation_sequence == 8


def test_the_anchor_has_the_floors_of_the_last_start_and_of_now(case):
    with case.start(floors=lambda: FLOORS) as log:
        log.idle_checkpoint()
    assert case.anchor.read().floors == FLOORS
    with case.start(floors=Floors) as log:
        assert log.anchored.floors == FLOORS
        log.idle_checkpoint()
    assert case.anchor.read().floors == FLOORS


def test_an_anchor_is_due_a_second_after_the_last_one_if_there_is_something_new(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(keeper.time, "monotonic", lambda: now[0])
    memory = Memory()
    kept = keeper.AnchorKeeper(memory, None, Floors)
    first, second = (Head(b"i" * 32, size, b"r" * 32, 99, bytes(32), b"") for size in (1, 2))
    assert kept.wait_s(first) == INTERVAL_S
    assert not kept.is_due(first)
    now[0] += 0.75
    assert kept.wait_s(first) == 0.25
    now[0] += 0.25
    assert kept.is_due(first)
    kept.write(first)
    assert memory.read().size == 1
    assert kept.wait_s(first) is None
    now[0] += 5
    assert not kept.is_due(first)  # nothing new, nothing to write
    assert kept.is_due(second)


def test_after_the_last_commit_the_anchor_follows_without_another(case, monkeypatch):
    monkeypatch.setattr(keeper, "INTERVAL_S", 0.05)
    memory = Memory()
    memory.write(case.anchor.read())
    with case.start(anchor=memory) as log:
        for number in range(10):
            log.append(entry(number))
        ends = time.monotonic() + 60
        while memory.read().size != log.head.size:
            assert time.monotonic() < ends
            time.sleep(0.01)
        count = len(memory.anchors)
        log.append(entry("at the end"))
    assert memory.read().size == log.head.size
    assert len(memory.anchors) > count
