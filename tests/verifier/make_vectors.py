"""Writes the vectors of a bundle's verification: `python -m tests.verifier.make_vectors`.

Keys, salts and nonces are fixed: a second run gives the same bytes. Names of version 1 and what
they stand for do not change any more; a run may add to them.
"""

from __future__ import annotations

import json
from pathlib import Path

from crypto import cbor
from tests.verifier.bundle_case import NOW
from tests.verifier.vector_case import Fixed, envelope
from tests.verifier.vectors_hostile import HOSTILE
from tests.verifier.vectors_signed import SIGNED
from tests.verifier.vectors_software import SOFTWARE
from tests.verifier.vectors_texts import TEXTS
from verifier.batch import verify_all
from verifier.errors import UsageError
from verifier.expectations import Expectations
from verifier.trust import Trust
from verifier.verify import verify

TARGET = Path(__file__).parents[1] / "data" / "verifier" / "v1"


def expectations_as_json(expected):
    """Return expectations with every byte string in hexadecimal."""
    shown = {}
    for name, value in expected.items():
        if name != "head":
            shown[name] = value.hex() if isinstance(value, bytes) else value
        elif value.log_id is None:
            shown["head"] = f"{value.size}:{value.root.hex()}"
        else:
            claims = {-70201: "x", -70202: value.log_id, -70241: value.size, -70242: value.root}
            payload = cbor.encode(claims | {-70243: 0, -70244: bytes(32)})
            made = envelope(payload, "windhover/checkpoint;v=1", "stranger")
            shown["head_checkpoint"] = made.hex()
    return shown


def judged(bundle, trust, expected):
    """Return verdict, reason, steps that did not pass, witnesses, and what the manifests give."""
    try:
        report = verify(bundle, trust, Expectations(**expected))
    except UsageError:
        return None, "usage", [], [], []
    steps = [[s.number, s.result, s.reason] for s in report.steps if s.result != "passed"]
    witnesses = [witness.name for witness in report.witnesses]
    software = [[one.result, one.release, one.signer] for one in report.software]
    return report.verdict, report.reason, steps, witnesses, software


def _line(entry):
    return json.dumps(entry, separators=(",", ":"))


class Files:
    """Files by content: equal ones are written once, under the name of the first."""

    def __init__(self):
        self.named = {}

    def add(self, name, data):
        return self.named.setdefault(data, name)


def made_files():
    """Return every file of the folder but its README by its path."""
    files, index = Files(), []
    for vector in (*SIGNED.vectors, *TEXTS.vectors, *HOSTILE.vectors, *SOFTWARE.vectors):
        bundle, trust, expected = vector.inputs()
        verdict, reason, steps, witnesses, software = judged(bundle, trust, expected)
        if (verdict, reason, software) != (vector.verdict, vector.reason, vector.software):
            raise ValueError(f"{vector.name}: {verdict} {reason} {software}")
        if vector.step and vector.step not in [number for number, *_ in steps]:
            raise ValueError(f"{vector.name}: another step")
        manifests = expected.pop("software", ())
        paths = [
            files.add(f"software/{vector.name}-{place}.cose", data)
            for place, data in enumerate(manifests)
        ]
        entry = {
            "name": vector.name,
            "bundle": files.add(f"bundles/{vector.name}.bundle", bundle),
            "trust": files.add(f"trust/{vector.name}.toml", trust),
            "expectations": expectations_as_json(expected)
            | ({"software": paths} if manifests else {}),
            "verdict": verdict,
            "reason": reason,
            "not_passed": steps,
        }
        more = {"witnesses": witnesses, "software": software}
        index.append(entry | {name: value for name, value in more.items() if value})
    found = {name: data for data, name in files.named.items()}
    lines = ",\n".join(_line(entry) for entry in index)
    batches = ",\n".join(_line(entry) for entry in _batches(found, index))
    text = f'{{"version": 1, "vectors": [\n{lines}\n], "batches": [\n{batches}\n]}}\n'
    return found | {"index.json": text.encode()}


def _variants():
    """Return bundles of one log, or of none that can be one, by name."""
    twin, fork, other = Fixed(), Fixed(), Fixed()
    twin.set({"statement": {-70216: "aarch64-sm3"}})
    fork.set({"statement": {-70203: 7, -70231: [6, bytes(32)]}})
    for claims in (other.statement, other.admission, other.checkpoint):
        claims[-70202] = bytes(32)
    return {"twin": twin, "fork": fork, "other": other}


def _batches(files, index):
    """Return batches; their bundles are added to the files."""
    path_of = {entry["name"]: entry["bundle"] for entry in index}
    for name, made in _variants().items():
        path_of[name] = f"bundles/batch-{name}.bundle"
        files[path_of[name]] = made.bundle()
    path_of["valid"] = path_of["signed-valid"]
    path_of["short"] = path_of["signed-13-no-inclusion"]
    path_of["broken"] = path_of["signed-05-statement-signature"]
    trust = files["trust/signed-valid.toml"]
    for names, verdict, reason in (
        (("valid", "valid"), "PASS", "ok"),
        (("valid", "short"), "INCOMPLETE", "no-inclusion"),
        (("short", "broken"), "FAIL", "statement-signature"),
        (("valid", "twin"), "FAIL", "batch-sequence"),
        (("valid", "fork"), "FAIL", "batch-root"),
        (("valid", "other"), "FAIL", "batch-log"),
    ):
        paths = [path_of[name] for name in names]
        parts = [(str(i), files[path]) for i, path in enumerate(paths)]
        found = verify_all(parts, Trust(trust), Expectations(at=NOW)).outcome
        if found != (verdict, reason):
            raise ValueError(f"{names}: {found}")
        yield {
            "name": "batch-" + "-".join(names),
            "bundles": paths,
            "trust": "trust/signed-valid.toml",
            "expectations": {"at": NOW},
            "verdict": verdict,
            "reason": reason,
        }


def main():
    files = made_files()
    for name, data in files.items():
        path = TARGET / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    for path in [path for path in TARGET.rglob("*") if path.is_file()]:
        if path.relative_to(TARGET).as_posix() not in {*files, "README.md"}:
            path.unlink()
    print(f"{len(files)} files, {sum(map(len, files.values()))} bytes")


if __name__ == "__main__":
    main()
