"""On what grounds weights were admitted, for people and for scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.cli.values import show_instant

if TYPE_CHECKING:
    from engine.admission import Admission, WeightsPolicy


def verdict_as_json(admission: Admission, policy: WeightsPolicy) -> dict[str, object]:
    """Return the object that commands print under `verdict`.

    `mode` is `production` or `dev`; the other keys are only there in production, and those of a
    release only where weights are signed.
    """
    verdict = admission.verdict
    if verdict is None or policy.trust is None:
        return {"mode": admission.mode}
    value: dict[str, object] = {
        "mode": admission.mode,
        "form": verdict.form,
        "signed": verdict.release is not None,
        "key_ids": [key_id.hex() for key_id in verdict.key_ids],
        "ignored_key_ids": [key_id.hex() for key_id in verdict.ignored_key_ids],
        "trust_digest": verdict.trust_digest.hex(),
        "revocation_sequence": verdict.revocation_sequence,
    }
    release = verdict.release
    if release is not None:
        floors = 0 if policy.floors is None else policy.floors.read().release(release.line)
        value.update(
            line=release.line,
            release=release.release,
            not_before=release.not_before,
            expires=release.expires,
            floor=max(floors, policy.trust.lines[release.line].minimum_release),
        )
    return value


def verdict_lines(admission: Admission, policy: WeightsPolicy) -> list[tuple[str, str]]:
    """Return the same as labels and texts."""
    verdict = admission.verdict
    if verdict is None or policy.trust is None:
        return [("vouched by", "nobody was asked (--dev)")]
    lines = [("trust file", verdict.trust_digest.hex())]
    if verdict.release is None:
        lines.append(("vouched by", "nobody; the trust file does not ask for signatures"))
    else:
        release = verdict.release
        until = "" if release.expires is None else f", until {show_instant(release.expires)}"
        names = [f"{policy.trust.keys[key_id].name} ({key_id.hex()})" for key_id in verdict.key_ids]
        lines.append(("release", f"{release.release} of line {release.line}{until}"))
        lines.append(("vouched by", ", ".join(names)))
    if verdict.revocation_sequence:
        lines.append(("revocations", f"list number {verdict.revocation_sequence}"))
    return lines
