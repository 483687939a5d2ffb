"""Exported ranges: verified without the log, refused when anything is changed."""

from __future__ import annotations

import json

import pytest

from appliance.log.export import check_export, write_export
from crypto.errors import FormatError, InvalidProofError, InvalidSignatureError, WriteError
from tests import altered
from tests.appliance.log.case import KEYS


@pytest.fixture
def export(case):
    case.fill(30)
    folder = case.base / "export"
    write_export(case.files(), folder, 5, 12, from_size=9)
    return folder


def rewrite(folder, **changes):
    path = folder / "export.json"
    value = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({name: v for name, v in value.items() if v is not None}))


def test_an_export_verifies_alone(case, export):
    found = check_export(export, KEYS)
    files = case.files()
    assert (found.first, found.count, found.is_signed) == (5, 12, True)
    assert (found.size, found.root) == (files.head.size, files.head.root)
    assert (found.from_size, found.from_root) == (9, files.root(9))
    assert not check_export(export).is_signed
    assert (export / "7.cose").read_bytes() == files.entry(7).body
    write_export(files, case.base / "one", 0, 1)
    assert check_export(case.base / "one").from_size is None


def test_every_altered_file_is_found(export):
    for path in export.glob("*.cose"):
        whole = path.read_bytes()
        path.write_bytes(altered.last_byte(whole))
        with pytest.raises((InvalidProofError, InvalidSignatureError)):
            check_export(export, KEYS)
        path.write_bytes(whole)
    check_export(export, KEYS)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"schema": "other"}, FormatError),
        ({"first": -1}, FormatError),
        ({"first": 1.0}, FormatError),
        ({"inclusion": []}, FormatError),
        ({"inclusion": [["00" * 32]]}, InvalidProofError),
        ({"inclusion": [["zz" * 32]]}, FormatError),
        ({"inclusion": [["00" * 32] * 129]}, FormatError),
        ({"size": 5}, FormatError),
        ({"root": "00" * 32}, FormatError),
        ({"from_root": "00" * 32}, InvalidProofError),
        ({"from_root": None}, FormatError),
        ({"consistency": None}, FormatError),
        ({"log_id": "00" * 31}, FormatError),
    ],
    ids=str,
)
def test_an_altered_description_is_found(export, changes, error):
    rewrite(export, **changes)
    with pytest.raises(error):
        check_export(export, KEYS)


def test_what_is_not_there_is_not_exported(case, export):
    files = case.files()
    for first, count in ((0, 0), (files.head.size, 1), (0, files.head.size + 1), (-1, 1)):
        with pytest.raises(IndexError):
            write_export(files, case.base / "none", first, count)
    assert not (case.base / "none").exists()
    with pytest.raises(WriteError):
        write_export(files, export, 0, 1)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "[" * 100_000, '{"schema": 1e999}'], ids=lambda text: text[:9]
)
def test_what_is_no_description_is_refused(export, text):
    (export / "export.json").write_text(text)
    with pytest.raises(FormatError):
        check_export(export)
