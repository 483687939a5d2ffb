"""The files of a report: report.json, report.cose, report.md and pictures, in one folder."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from crypto.signer import Signer
from he_chain.records.run_folder import read_whole, write_whole
from he_chain.reports.plots import plots
from he_chain.reports.report import MAX_REPORT_BYTES, Json, decode_report, encode_report
from he_chain.reports.report_text import report_as_markdown
from he_chain.reports.signed_report import sign_report

REPORT: Final = "report.json"
SIGNED: Final = "report.cose"
TEXT: Final = "report.md"


def write_report(folder: Path, report: Json, signer: Signer) -> list[str]:
    """Write a report and sign it; what lies there of an earlier one is replaced.

    Args:
        folder: made where it is not there.
        report: as `build_report` gives it.
        signer: an `attest` key.

    Returns:
        The names of the files.

    Raises:
        WriteError: the file system refused.
        CryptoError: as of `sign_report`.
    """
    data = encode_report(report)
    signed = sign_report(data, bytes.fromhex(report["head"]), signer)
    pictures = plots(report)
    files = {
        **{name: text.encode() for name, text in pictures.items()},
        TEXT: report_as_markdown(report, list(pictures)).encode(),
        REPORT: data,
        SIGNED: signed,
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_whole(folder / name, content, force=True)
    return list(files)


def references_of(folder: Path) -> list[str]:
    """Return the references that a report names, unverified; none where it has no figures.

    Raises:
        CheckpointError: there is no report.
    """
    report = decode_report(read_whole(folder / REPORT, MAX_REPORT_BYTES))
    measured = report.get("measured")
    names = measured.get("references") if isinstance(measured, dict) else None
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
