"""Appending: places, batches, proofs, states."""

from __future__ import annotations

import os
import threading
import time

import pytest

from appliance.log.check import LogCheck
from appliance.log.errors import LogUnavailableError
from appliance.log.objects import verify_object
from crypto.cose import decode_sign1
from crypto.event import decode_event
from crypto.merkle import leaf_hash, verify_inclusion
from crypto.signer import SoftwareSigner
from tests.appliance.log.case import KEYS, SIGNER, START_MS, Clock, entry, refused, verify
from tests.crypto.sm2_case import key_of

DAY_MS = 86_400_000


def event_at(log, index):
    return decode_event(decode_sign1(log.files.entry(index).body, max_bytes=65_536).payload)


def test_a_log_begins_with_genesis_and_notes_its_start(case):
    with case.start() as log:
        assert event_at(log, 0).event == "genesis"
        boot = event_at(log, 1)
        assert boot.event == "boot"
        assert boot.reason.startswith("recovered 1 ")
        assert boot.reason.endswith(", cut 0")
        assert boot.log_id == log.log_id
        assert (boot.sequence, log.head.size, log.state) == (1, 2, "ready")


def test_an_entry_is_durable_and_proved_when_it_is_released(case):
    with case.start() as log:
        for number in range(30):
            committed = log.append(entry(number))
            position = committed.position
            assert committed.entry == f"{number} at {position.index}".encode()
            assert position.index == number + 2
            assert position.earlier_size <= position.index
            assert position.time_ms == START_MS
            verify(committed)
            assert verify_object(committed.head.checkpoint, KEYS)
            on_disk = case.files()
            assert on_disk.head == committed.head
            assert on_disk.entry(position.index).body == committed.entry


def test_entries_that_wait_together_are_committed_together(case, monkeypatch):
    syncs = []
    sync = os.fdatasync
    held, free = threading.Event(), threading.Event()

    def slow(position):
        held.set()
        free.wait()
        return entry("slow")(position)

    results = []
    with case.start() as log:
        first = threading.Thread(target=lambda: results.append(log.append(slow)))
        first.start()
        held.wait()
        others = [
            threading.Thread(target=lambda k=k: results.append(log.append(entry(k))))
            for k in range(20)
        ]
        for thread in others:
            thread.start()
        while len(log._waiting) < 20:
            time.sleep(0.001)
        monkeypatch.setattr("os.fdatasync", lambda file: (syncs.append(file), sync(file)))
        free.set()
        for thread in [first, *others]:
            thread.join()
        assert len(results) == 21
        assert sorted(c.position.index for c in results) == list(range(2, 23))
        assert len({c.head.size for c in results}) == 2
        assert len(syncs) == 2
        for committed in results:
            verify(committed)


def test_an_admission_keeps_room_until_it_is_closed(case):
    with case.start() as log:
        admitted = log.append(entry("admission"), admits=True, reserve_bytes=5000)
        index = admitted.position.index
        assert admitted.reservation.num_bytes > 5000
        assert log._writer.space.reserved == admitted.reservation.num_bytes
        assert [found for found, _ in log.open_admissions()] == [index]
        assert log.open_admissions()[0][1].body == admitted.entry
        closed = log.append(
            lambda position: b"x" * 5000,
            closes=index,
            reservation=admitted.reservation,
            include=[index],
        )
        assert log.open_admissions() == []
        assert log._writer.space.reserved == 0
        head = closed.head
        verify_inclusion(
            leaf_hash(admitted.entry), index, head.size, closed.inclusions[index], head.root
        )


def test_an_admission_is_closed_once_and_only_if_it_is_there(case):
    with case.start() as log:
        index = log.append(entry("admission"), admits=True).position.index
        log.append(entry("closing"), closes=index)
        for wrong in (index, 0, 99):
            with pytest.raises(ValueError, match="not open"):
                log.append(entry("closing"), closes=wrong)
        with pytest.raises(ValueError, match="either"):
            log.append(entry("both"), admits=True, closes=index)
        with pytest.raises(ValueError, match="include"):
            log.append(entry("later"), include=[log.head.size])
        assert log.state == "ready"
        assert log._writer.space.reserved == 0


def test_of_two_closings_that_wait_together_one_is_refused(case):
    held, free = threading.Event(), threading.Event()
    results = []

    def slow(position):
        held.set()
        free.wait()
        return entry("slow")(position)

    def close():
        try:
            results.append(log.append(entry("closing"), closes=index).position.index)
        except ValueError as error:
            results.append(str(error))

    with case.start() as log:
        index = log.append(entry("admission"), admits=True).position.index
        threads = [threading.Thread(target=log.append, args=(slow,))]
        threads[0].start()
        held.wait()
        threads += [threading.Thread(target=close) for _ in range(2)]
        for thread in threads[1:]:
            thread.start()
        while len(log._waiting) < 2:
            time.sleep(0.001)
        free.set()
        for thread in threads:
            thread.join()
        assert sorted(map(str, results)) == ["4", f"admission {index} is not open"]
        assert log.state == "ready"


def test_open_admissions_survive_a_restart_and_many_segments(case):
    with case.start() as log:
        index = log.append(entry("admission"), admits=True).position.index
        for number in range(40):
            log.append(entry(number))
    with case.start() as log:
        assert len(log.files.closed) > 3
        ((found, admission),) = log.open_admissions()
        assert (found, admission.body) == (index, b"admission at 2")
        log.append(entry("lost"), closes=index)
        assert log.open_admissions() == []


@pytest.mark.parametrize(
    "make",
    [
        lambda position: 1 / 0,
        lambda position: b"",
        lambda position: bytes(65_537),
        lambda position: "text",
    ],
    ids=["raises", "empty", "long", "no bytes"],
)
def test_a_failure_after_an_index_was_taken_stops_the_log(case, make):
    log = case.start()
    log.append(entry("before"))
    with pytest.raises(LogUnavailableError) as caught:
        log.append(make)
    assert caught.value.reason == "failed"
    assert caught.value.__cause__ is log.failure
    assert log.state == "failed"
    for call in (lambda: log.append(entry("after")), log.idle_checkpoint):
        with pytest.raises(LogUnavailableError, match="has stopped"):
            call()
    log.close()
    with case.start() as log:  # nothing of it was written, and the index is free again
        assert log.append(entry("after")).position.index == 4


def test_a_second_writer_is_refused(case):
    with case.start():
        with pytest.raises(LogUnavailableError) as caught:
            case.start()
        assert caught.value.reason == "locked"
    case.start().close()


def test_a_closed_log_refuses(case):
    log = case.start()
    log.close()
    log.close()
    assert log.state == "closed"
    with pytest.raises(LogUnavailableError) as caught:
        log.append(entry("late"))
    assert caught.value.reason == "closed"


def test_idle_checkpoints_name_the_one_before(case):
    with case.start() as log:
        first = log.idle_checkpoint()
        case.clock.now_ms += 60_000
        second = log.idle_checkpoint()
        assert second.size == first.size
        assert second.previous == first.digest
        assert second.time_ms == START_MS + 60_000
        assert case.anchor.read().time_ms == second.time_ms


def test_a_clock_that_is_behind_is_not_ready_until_it_is_right(case):
    case.fill(1)
    case.clock.now_ms -= 300_001
    with case.start() as log:
        assert log.state == "clock"
        size = log.head.size
        with pytest.raises(LogUnavailableError) as caught:
            log.append(entry("early"))
        assert caught.value.reason == "clock"
        case.clock.now_ms += 1
        assert log.state == "ready"
        committed = log.append(entry("right"))
        # its start is noted now, and time does not fall
        assert committed.position.index == size + 1
        assert event_at(log, size).event == "boot"
        assert committed.position.time_ms == START_MS


def test_a_clock_that_falls_behind_while_an_entry_waits_takes_no_index(case):
    with case.start() as log:
        size = log.head.size
        log._require_ready = lambda: None  # it was right when the entry was handed over
        case.clock.now_ms -= 400_000
        with pytest.raises(LogUnavailableError) as caught:
            log.append(entry("early"))
        assert caught.value.reason == "clock"
        case.clock.now_ms = START_MS
        assert log.append(entry("right")).position.index == size


def test_a_jump_ahead_is_an_entry(case):
    with case.start() as log:
        case.clock.now_ms += DAY_MS
        assert log.append(entry("a day")).position.index == 2
        case.clock.now_ms += DAY_MS + 1
        assert log.append(entry("more")).position.index == 4
        event = event_at(log, 3)
        assert (event.event, event.reason) == ("clock", "ahead 86400 s")


def test_a_new_key_is_introduced_by_the_old_one(case):
    other = SoftwareSigner(key_of(0x10D))
    case.fill(3)
    assert refused(case.start, signer=other).reason == "unknown-key"
    with case.start() as log:
        committed = log.introduce_key(other.public_key, "rotation")
        event = event_at(log, committed.position.index)
        assert event.next_key == other.public_key.spki_der()
        with pytest.raises(ValueError, match="written"):
            log.introduce_key(other.public_key, "x" * 201)
        assert log.state == "ready"
    with case.start(signer=other, keys=[SIGNER.public_key]) as log:
        log.append(entry("new"))
    with case.start(signer=other) as log:
        keys = {signer.key_id: signer.public_key for signer in (SIGNER, other)}
        assert LogCheck(log.files, keys=keys, are_objects=False).run().signatures == 1


def test_threads_append_without_holes(case):
    results = []

    def work(number):
        for turn in range(10):
            admitted = log.append(entry((number, turn)), admits=True, reserve_bytes=100)
            index = admitted.position.index
            closed = log.append(
                entry("closing"), closes=index, reservation=admitted.reservation, include=[index]
            )
            results.extend((admitted, closed))

    with case.start() as log:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(c.position.index for c in results) == list(range(2, 162))
        for committed in results:
            verify(committed)
        assert log._writer.space.reserved == 0
    found = LogCheck(case.files(), keys=KEYS, are_objects=False).run()
    assert found.entries == 162
    assert found.segments > 4
    assert found.signatures == 1


def test_the_clock_of_a_case_stands_still():
    assert Clock()() == START_MS
