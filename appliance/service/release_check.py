"""Whether this process is made of the files of a signed release."""

from __future__ import annotations

from appliance.service.start_report import ReleaseReport
from appliance.software_manifest import Accepted
from crypto.errors import PolicyError


def check_software(accepted: Accepted, software_digest: bytes, *, is_dev: bool) -> ReleaseReport:
    """Compare the files of this process with a signed manifest.

    Args:
        accepted: the manifest.
        software_digest: 32 bytes, of this process's files.
        is_dev: whether other files are let pass: statements of mode `dev` promise nothing.

    Raises:
        PolicyError: `software-differs`.
    """
    manifest, is_same = accepted.manifest, True
    try:
        manifest.check(software_digest)
    except PolicyError:
        if not is_dev:
            raise
        is_same = False
    return ReleaseReport(manifest.name, accepted.key_name, is_same)


def say_release(report: ReleaseReport) -> str:
    """Return in words what a process is made of."""
    is_not = "" if report.is_same else "not "
    return f"{is_not}the files of {report.name}, signed by {report.signed_by}"
