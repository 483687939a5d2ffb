"""Killed at random moments while several threads append: nothing that was released is lost."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from appliance.log.anchor import FileAnchor
from appliance.log.check import LogCheck
from appliance.log.create import create_log
from appliance.log.files import LogFiles
from appliance.log.start import check_anchor
from tests.appliance.log.case import KEYS, SIGNER
from tests.structure.source import CHECKOUT

ATTEMPTS = 200


def attempts(base, count):
    """Yield what each killed process had released."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.appliance.log.appender", json.dumps({"base": str(base)})],
        cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
    )  # fmt: skip
    with process:
        for _ in range(count):
            process.stdin.write("again\n")
            yield json.loads(process.stdout.readline())
        process.stdin.close()
    assert process.returncode == 0


def check(base, released, heads):
    """Compare the log with everything that was ever released."""
    files = LogFiles(base / "log")
    for index, entry in released.items():
        assert files.entry(index).body == entry
    for size, root in heads.items():
        assert files.root(size) == root
        files.consistency(size, files.head.size)
    check_anchor(files, FileAnchor(base / "anchor").read())
    return files


def run(base, count):
    anchor = FileAnchor(base / "anchor")
    create_log(base / "log", signer=SIGNER, issuer="tests", anchor=anchor)
    released, heads, with_entries, cut = {}, {}, 0, 0
    for result in attempts(base, count):
        assert result["killed"]
        with_entries += bool(result["released"])
        new_entries, new_heads = {}, {}
        for index, entry, size, root, _ in result["released"]:
            assert index not in released
            assert heads.get(size, bytes.fromhex(root)) == bytes.fromhex(root)
            new_entries[index] = bytes.fromhex(entry)
            new_heads[size] = bytes.fromhex(root)
        files = check(base, new_entries, new_heads)  # before the next process starts it
        cut += bool(files.last.cut)
        released |= new_entries
        heads |= new_heads
    files = check(base, released, heads)
    found = LogCheck(files, keys=KEYS, are_objects=False).run()
    assert found.entries == files.head.size
    assert len(files.last.growth.open_admissions) <= 40
    return files, released, with_entries, cut


def test_killed_at_a_few_moments_nothing_is_lost(tmp_path):
    _, released, with_entries, _ = run(tmp_path, 8)
    assert with_entries
    assert released


@pytest.mark.slow
@pytest.mark.ci
def test_killed_at_two_hundred_moments_nothing_is_lost(tmp_path):
    files, released, with_entries, cut = run(tmp_path, ATTEMPTS)
    assert with_entries > ATTEMPTS / 4
    assert len(files.closed) > 10
    assert cut > ATTEMPTS / 20
    print(f"{len(released)} released, {files.head.size} entries, {cut} interrupted writes")
