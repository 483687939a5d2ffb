"""Attestations kept and found again: by whom, how long, how many, and after a restart."""

from __future__ import annotations

import time

import pytest

from appliance.attestation import Answer, Order
from appliance.log.errors import LogDamageError
from appliance.service.attestations import Attestation, AttestationStore, attestation_id
from appliance.service.idle import IdleCheckpoints

ALICE, BOB = bytes(15) + b"a", bytes(15) + b"b"
FAILED = Answer(outcome="error", finish_reason="error")


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def admitted_by(attestor, principal=ALICE):
    return attestor.admit(
        Order(
            path="/v1/completions",
            body=b"{}",
            prompt_ids=(1,),
            parameters={"max_tokens": 1},
            admitted_ms=attestor.now_ms(),
            principal=principal,
        )
    )


def name_of(admitted) -> str:
    return attestation_id(admitted.index, admitted.request_id)


def fake(name, size=100) -> Attestation:
    return Attestation(name, 1, b"s", bytes(size - 1))


def test_the_oldest_goes_first_when_there_is_no_room(log):
    store = AttestationStore(log, max_bytes=250, ttl_s=10)
    for number in range(4):
        store.put(number, ALICE, fake(f"att-{number}-00000000"))
    assert store.num_bytes == 200
    assert store.find("att-1-00000000", ALICE) is None
    assert store.find("att-3-00000000", ALICE) is not None
    assert store.find("att-3-00000000", BOB) is None
    store.put(9, ALICE, fake("att-9-00000000", 1000))
    assert store.num_bytes == 0


def test_a_bundle_goes_when_its_time_is_over_and_its_statement_stays(log, attestor):
    clock = Clock()
    store = AttestationStore(log, max_bytes=1 << 20, ttl_s=10, clock=clock)
    admitted = admitted_by(attestor)
    bundle = attestor.close(admitted, FAILED)
    name = name_of(admitted)
    kept = Attestation(name, admitted.index + 1, bundle.statement, bundle.encode())
    store.put(admitted.index, ALICE, kept)
    clock.now = 9.9
    assert store.find(name, ALICE) == kept
    clock.now = 10.0
    found = store.find(name, ALICE)
    assert store.num_bytes == 0
    assert found == Attestation(name, kept.sequence, bundle.statement, None)
    assert store.find(name, BOB) is None


def test_a_statement_is_found_after_a_restart(log, attestor):
    early, late = admitted_by(attestor), admitted_by(attestor, BOB)
    one, other = attestor.close(late, FAILED), attestor.close(early, FAILED)
    store = AttestationStore(log, max_bytes=1 << 20, ttl_s=10)
    assert store.find(name_of(early), ALICE).statement == other.statement
    assert store.find(name_of(late), BOB).statement == one.statement
    assert store.find(name_of(late), ALICE) is None
    swapped = f"att-{early.index}-{late.request_id[:4].hex()}"
    assert store.find(swapped, ALICE) is None


def test_what_is_open_is_not_there_yet(log, attestor):
    admitted = admitted_by(attestor)
    store = AttestationStore(log, max_bytes=1 << 20, ttl_s=10)
    assert store.find(name_of(admitted), ALICE) is None
    attestor.close(admitted, FAILED)
    assert store.find(name_of(admitted), ALICE) is not None


@pytest.mark.parametrize(
    "name",
    [
        *("", "att", "att-0-00000000", "att-00-00000000", "att-1-0000000", "att-1-0000000g"),
        *("att-1-00000000\n", "ATT-1-00000000", "att--1-00000000", "att-999999999999999-00000000"),
    ],
)
def test_other_ids_name_nothing(log, name):
    assert AttestationStore(log, max_bytes=1 << 20, ttl_s=10).find(name, ALICE) is None


def test_a_damaged_log_is_no_absent_statement(log, attestor):
    admitted = admitted_by(attestor)
    attestor.close(admitted, FAILED)
    path = log.files.last.path
    data = bytearray(path.read_bytes())
    at = data.index(admitted.admission) + 40
    data[at] ^= 1
    with path.open("r+b") as stream:
        stream.write(data)
    store = AttestationStore(log, max_bytes=1 << 20, ttl_s=10)
    with pytest.raises(LogDamageError):
        store.find(name_of(admitted), ALICE)


def test_checkpoints_are_written_while_nothing_happens(log):
    before = log.head
    idle = IdleCheckpoints(log, interval_s=0.01)
    while log.head.checkpoint == before.checkpoint:
        time.sleep(0.01)
    idle.stop()
    after = log.head
    assert after.size == before.size
    assert after.time_ms >= before.time_ms


def test_a_checkpoint_that_cannot_be_written_is_told(open_log):
    log, failures = open_log(), []
    log.close()
    idle = IdleCheckpoints(log, interval_s=0.01, on_failure=failures.append)
    while not failures:
        time.sleep(0.01)
    idle.stop()
    assert failures[0].reason == "closed"
