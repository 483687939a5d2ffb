"""The check that reads everything again, with real objects."""

from __future__ import annotations

import pytest

from appliance.log.check import LogCheck
from appliance.log.errors import LogDamageError
from appliance.log.layout import ADMISSION, CLOSING, ENTRY
from appliance.log.writer import Limits
from crypto.cose import sign1
from tests.appliance.log.case import KEYS, SIGNER, entry
from tests.appliance.log.objects_case import admission, statement
from tests.crypto.sm2_case import key_of


def checked(case, **settings):
    return LogCheck(case.files(), **{"keys": KEYS, "all_signatures": True} | settings).run()


def damage(case, **settings):
    with pytest.raises(LogDamageError) as caught:
        checked(case, **settings)
    assert caught.value.reason == "corrupted"
    return caught.value


def test_a_log_of_real_objects_is_right(case):
    with case.start() as log:
        for _ in range(9):
            index = log.append(admission(), admits=True).position.index
            log.append(statement(index), closes=index)
        log.append(admission(), admits=True)
    seen = []
    found = checked(case, progress=lambda done, total: seen.append((done, total)))
    assert found.entries == 21
    assert found.segments == 3
    assert found.signatures == found.entries + found.checkpoints
    assert found.signatures_unchecked == 0
    assert checked(case, keys={}).signatures_unchecked == found.signatures
    assert checked(case, keys=None).signatures == 0
    assert all(total == 21 for _, total in seen)


@pytest.mark.parametrize(
    ("make", "settings", "rule"),
    [
        (entry("no object"), {}, "sign1"),
        (admission(), {}, "log-kind"),
        (admission(log_id=b"x" * 32), {"admits": True}, "log-id"),
        (admission(sequence=7), {"admits": True}, "log-sequence"),
        (statement(0), {"admits": True}, "log-kind"),
        (lambda _: sign1(b"\xa0", typ="windhover/release;v=1", signer=SIGNER), {}, "type"),
    ],
    ids=["entry", "kind", "log", "sequence", "statement", "type"],
)
def test_an_entry_that_does_not_belong_there_is_named(case, make, settings, rule):
    with case.start(limits=Limits()) as log:
        log.append(make, **settings)
        log.append(admission(), admits=True)
    error = damage(case)
    assert rule in str(error)
    assert (error.index, error.file) == (2, case.last_file())
    assert checked(case, are_objects=False, all_signatures=False).entries == 4


def test_a_statement_for_another_admission_is_named(case):
    with case.start() as log:
        index = log.append(admission(), admits=True).position.index
        log.append(statement(1), closes=index)
    assert "log-admission" in str(damage(case))


def test_a_wrong_signature_is_named(case):
    forged = {SIGNER.key_id: key_of(0x10D).public_key}
    case.fill(2)
    assert damage(case, keys=forged, are_objects=False).index == 0
    assert damage(case, keys=forged, are_objects=False, all_signatures=False).index == 3


def test_kinds_are_those_of_the_format():
    assert (ENTRY, ADMISSION, CLOSING) == (1, 3, 4)


def test_a_log_that_is_being_written_can_be_checked(case):
    with case.start(limits=Limits()) as log:
        log.append(admission(), admits=True)
        files = case.files()
        log.append(admission(), admits=True)
        found = LogCheck(files, keys=KEYS).run()
        assert found.entries == 3
        with case.last_file().open("ab") as stream:
            stream.write(b"the beginning of a batch")
        assert checked(case).entries == 4
        with case.last_file().open("r+b") as stream:
            stream.truncate(log.files.last.end)
