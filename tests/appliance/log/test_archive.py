"""Closed segments in an archive: mounted, away, and incomplete."""

from __future__ import annotations

import shutil

import pytest

from appliance.log.check import LogCheck
from appliance.log.errors import LogUnavailableError
from crypto.merkle import leaf_hash, verify_inclusion
from tests.appliance.log.case import KEYS, entry, refused, verify


@pytest.fixture
def archive(case):
    """A log of which the two oldest segments are in the archive."""
    case.fill(30)
    folder = case.base / "archive"
    folder.mkdir()
    for path in sorted(case.folder.glob("*.log"))[:2]:
        shutil.move(path, folder / path.name)
    return folder


def test_proofs_and_entries_come_from_a_mounted_archive(case, archive):
    files = case.files(archive)
    assert files.away == 0
    size = files.head.size
    for index in range(size):
        path = files.inclusion(index, size)
        verify_inclusion(leaf_hash(files.entry(index).body), index, size, path, files.head.root)
    found = LogCheck(files, keys=KEYS, are_objects=False).run()
    assert (found.entries, found.segments_away) == (size, 0)
    with case.start(archive=archive) as log:
        verify(log.append(entry("more")))


def test_indexes_may_be_in_the_archive_too(case, archive):
    for path in sorted(case.folder.glob("*.idx"))[:2]:
        shutil.move(path, archive / path.name)
    files = case.files(archive)
    files.inclusion(3, files.head.size)
    case.start(archive=archive).close()
    assert len(list(archive.glob("*.idx"))) == 2


def test_with_the_archive_away_only_its_entries_are(case, archive):
    away = case.base / "not mounted"
    files = case.files(away)
    assert files.away == 2
    files.inclusion(3, files.head.size)
    files.consistency(3, files.head.size)
    with pytest.raises(LogUnavailableError) as caught:
        files.entry(3)
    assert caught.value.reason == "archive"
    assert files.entry(20).body
    with case.start(archive=away) as log:
        verify(log.append(entry("more")))
    found = LogCheck(case.files(away), keys=KEYS, are_objects=False).run()
    assert found.segments_away == 2


def test_with_indexes_away_too_only_proofs_that_need_them_are_refused(case, archive):
    for path in sorted(case.folder.glob("*.idx"))[:2]:
        shutil.move(path, archive / path.name)
    away = case.base / "not mounted"
    with case.start(archive=away) as log:
        for index in (3, 20):
            with pytest.raises(LogUnavailableError) as caught:
                log.files.inclusion(index, log.head.size)
            assert caught.value.reason == "archive"
    found = LogCheck(case.files(away), keys=KEYS, are_objects=False).run()
    assert found.segments_away == 1  # the one whose beginning is not known
    assert found.segments == 2


def test_what_an_archive_does_not_have_is_missing(case, archive):
    assert refused(case.start).reason == "missing-segment"
    lost = sorted(archive.glob("*.log"))[0]
    lost.unlink()
    error = refused(case.start, archive=archive)
    assert (error.reason, error.index) == ("missing-segment", 0)


def test_the_last_closed_segment_may_be_away_with_its_index_here(case, archive):
    path = sorted(case.folder.glob("*.log"))[-2]
    shutil.move(path, archive / path.name)
    away = case.base / "not mounted"
    with case.start(archive=away) as log:
        verify(log.append(entry("more")))
    shutil.move(path.with_suffix(".idx"), archive / path.with_suffix(".idx").name)
    with pytest.raises(LogUnavailableError) as caught:
        case.start(archive=away)
    assert caught.value.reason == "archive"
    case.start(archive=archive).close()
