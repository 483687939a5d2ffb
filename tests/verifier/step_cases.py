"""Bundles that are wrong, or short of something, in one way each: step, reason, verdict, change."""

from __future__ import annotations

import pytest

from crypto import cbor
from tests.verifier.bundle_case import (
    DAY,
    MODEL,
    NONCE,
    NOW,
    STARTED,
    instant,
    signer,
    trust_text,
)
from verifier.expectations import Head

NAMES = ("request", "prompt_ids", "transcript", "output_ids", "trace")
PART = {"trace": "trace_root"}
ID = {name: signer(name).key_id for name in ("attest", "weights", "revoke")}


def listed(keys=(), models=(), sequence=5, issued=NOW // 1000 - 10):
    return {-70121: sequence, -70122: issued, -70123: sorted(keys), -70124: sorted(models)}


REQUIRED = "[revocations]\n"
CASES = []


def case(step, reason, verdict="FAIL"):
    """Keep a function that changes a valid bundle and may return expectations."""

    def keep(change):
        CASES.append(pytest.param(step, reason, verdict, change, id=f"{step}-{change.__name__}"))
        return change

    return keep


def open_case(step, reason):
    return case(step, reason, "INCOMPLETE")


def change(step, reason, verdict="FAIL", **attributes):
    """A case that only sets attributes, or entries of those that are maps."""

    def apply(made):
        for name, value in attributes.items():
            held = getattr(made, name)
            if isinstance(held, dict):
                held |= value
                for key in [key for key, entry in held.items() if entry is ...]:
                    del held[key]
            else:
                setattr(made, name, value)

    apply.__name__ = "-".join([reason, *attributes, str(len(CASES))])
    case(step, reason, verdict)(apply)


def keys(**entries):
    return {"trust": trust_text(keys=entries)}


# steps 1 to 9
change(1, "bundle-format", parts={"version": 2})
change(1, "bundle-format", parts={"more": b""})
change(1, "bundle-format", parts={"statement": None})
change(1, "bundle-format", parts={"statement": [b""]})
change(1, "bundle-format", parts={"inclusion": [bytes(31)]})
change(1, "bundle-format", parts={"inclusion": [bytes(32)] * 65})
change(1, "bundle-format", parts={"releases": [b""] * 17})
change(1, "bundle-format", parts={"trace_root": bytes(31)})
change(1, "bundle-format", parts={"request": bytes((16 << 20) + 1)})
change(1, "bundle-format", salts={"more": bytes(32)})
change(1, "bundle-format", parts={"salts": {"request": bytes(31)}})
change(2, "statement-format", parts={"statement": b""})
change(2, "statement-format", parts={"statement": bytes(65_537)})
change(2, "statement-type", kinds={"statement": "admission"})
BROKEN = {
    -70201: ["", "x" * 65, "é", b"x", ...], -70202: [bytes(31), ...], -70203: [5, -1, 1 << 53],
    -70204: [True], -70205: [STARTED + 5001, ...], -70206: [..., "0"], -70207: [bytes(15)],
    -70208: ["windhover/generate;v=2", ...], -70209: ["answerd", ...], -70101: [bytes(33), ...],
    -70102: ["Chat", ".a", "a\n", ...], -70103: [0, ...], -70211: [bytes(31)],
    -70212: ["", ...], -70213: ["test"], -70214: [b""], -70215: ["wh2"], -70216: ["", "a\x7f"],
    -70217: ["none"], -70218: ["shut"], -70219: [bytes(15)], -70220: [...], -70221: [bytes(31)],
    -70222: [{"A": 1}, {"a": b""}, {"a": 1 << 53}, {"a": True}, {str(i): i for i in range(33)}, []],
    -70223: [-1, "1"], -70224: ["client"], -70225: [{}, dict.fromkeys(NAMES[:4], bytes(32))],
    -70226: [[1], [1, 2, 3], [1, -1], 3], -70227: ["done"], -70228: [[0, 1, 1], [1, 1, 0], [0, 0]],
    -70229: [b""], -70230: [-1], -70231: [[9, bytes(32)], [1], [1, b""]], -70232: [32], -70299: [0],
}  # fmt: skip
for key, values in BROKEN.items():
    for value in values:
        change(3, "statement-claims", statement={key: value})
change(3, "statement-claims", statement={1: 1})
change(4, "key-role", **keys(attest=("witness", "")))
change(4, "unknown-key", "INCOMPLETE", **keys(attest=None))
change(5, "statement-signature", flip={"statement"})
change(
    6,
    "key-not-yet-valid",
    "INCOMPLETE",
    **keys(attest=("attest", f'not_before = "{instant(STARTED // 1000 + 1)}"')),
)
for end in (STARTED // 1000 + 5, NOW // 1000):
    change(
        6,
        "key-expired",
        "INCOMPLETE",
        **keys(attest=("attest", f'not_after = "{instant(end)}"')),
    )
change(6, "key-revoked", "INCOMPLETE", revocations=listed(keys=[ID["attest"]]))
change(7, "mode-dev", "INCOMPLETE", statement={-70213: "dev"})
change(7, "load-unsigned", "INCOMPLETE", statement={-70212: "unsigned"})
change(7, "not-covered", "INCOMPLETE", statement={-70232: 30})
change(7, "not-covered", "INCOMPLETE", statement={-70228: [0, 0, 0]}, texts={"trace": b""})
change(8, "from-the-future", statement={-70206: NOW + 300_001})


@case(9, "expected-signer")
def another_signer(made):
    return {"signer": bytes(32)}


@case(9, "expected-model")
def another_model(made):
    return {"model": bytes(32)}


@case(9, "expected-nonce")
def another_nonce(made):
    return {"nonce": bytes(32)}


@case(9, "expected-nonce")
def no_nonce(made):
    for claims in (made.statement, made.admission):
        del claims[-70207]
        claims[-70224] = "server"
    return {"nonce": NONCE}


@case(9, "expected-window")
def too_early(made):
    return {"after": STARTED + 1}


@case(9, "expected-window")
def too_late(made):
    return {"before": STARTED + 4999}


# steps 10 to 17
change(10, "no-checkpoint", "INCOMPLETE", parts={"checkpoint": None})
change(10, "checkpoint-format", parts={"checkpoint": b"\xd2"})
change(10, "checkpoint-type", kinds={"checkpoint": "admission"})
change(10, "checkpoint-claims", checkpoint={-70241: 0})
change(11, "checkpoint-log", checkpoint={-70202: bytes(32)})
change(11, "checkpoint-role", signers={"checkpoint": "witness"})
change(11, "checkpoint-signature", flip={"checkpoint"})
change(11, "checkpoint-key", "INCOMPLETE", signers={"checkpoint": "stranger"})
change(
    11,
    "checkpoint-key",
    "INCOMPLETE",
    signers={"checkpoint": "attest2"},
    **keys(attest2=("attest", f'not_after = "{instant(NOW // 1000)}"')),
)
change(12, "log-not-pinned", "INCOMPLETE", trust=trust_text(logs={"main": bytes(32)}))
change(13, "no-inclusion", "INCOMPLETE", parts={"inclusion": None})
change(13, "inclusion", parts={"inclusion": []})
change(13, "inclusion", checkpoint={-70242: bytes(32)})
change(13, "inclusion", checkpoint={-70241: 8}, parts={"inclusion": None})
change(14, "no-admission", "INCOMPLETE", parts={"admission": None})
change(14, "admission-format", parts={"admission": b""})
change(14, "admission-type", kinds={"admission": "statement"})
change(14, "admission-claims", admission={-70209: "answered"})
change(14, "admission-role", signers={"admission": "weights"})
change(14, "admission-signature", flip={"admission"})
change(14, "admission-key", "INCOMPLETE", signers={"admission": "stranger"})
for key, value in {
    -70202: bytes(32), -70203: 4, -70205: STARTED + 1, -70207: ..., -70101: bytes(32),
    -70219: bytes(range(16)), -70222: {}, -70223: 5, -70224: "server",
}.items():  # fmt: skip
    change(14, "admission-differs", admission={key: value})
change(14, "admission-differs", request_commitment=bytes(32))
change(14, "admission-differs", signers={"admission": "stranger"}, admission={-70222: {"a": 1}})
change(15, "no-admission-inclusion", "INCOMPLETE", parts={"admission_inclusion": None})
change(15, "admission-inclusion", parts={"admission_inclusion": [bytes(32)]})
change(16, "no-consistency", "INCOMPLETE", parts={"consistency": None})
change(16, "consistency", parts={"consistency": []})
change(16, "consistency", statement={-70231: [6, bytes(32)]})
change(16, "consistency", statement={-70231: [0, bytes(32)]}, parts={"consistency": None})


@case(17, "expected-head")
def another_root(made):
    return {"head": Head(11, bytes(32))}


@case(17, "expected-head")
def another_log(made):
    made.bundle()
    return {"head": Head(11, made.root, bytes(32))}


@open_case(17, "head-differs")
def another_size(made):
    return {"head": Head(12, bytes(32)), "need": ("A0",)}


# steps 18 to 21
for name in NAMES:
    shown = name.replace("_", "-")
    change(18, f"no-{shown}", "INCOMPLETE", parts={PART.get(name, name): None})
    change(18, f"no-salt-{shown}", "INCOMPLETE", kept_salts={name})
    wrong = bytes(32) if name == "trace" else b"wrong"
    change(18, f"opens-{shown}", parts={PART.get(name, name): wrong})
change(19, "counts", texts={"prompt_ids": bytes(11)})
change(19, "counts", texts={"output_ids": bytes(12)})
change(19, "counts", texts={"trace": b""})
change(19, "counts", statement={-70228: [5, 30, 576]})
change(19, "counts", statement={-70226: [3, 0]}, texts={"output_ids": b""})
change(
    19,
    "counts",
    statement={-70222: {"inputs": 1}, -70226: [3, 0], -70228: [2, 30, 576]},
    admission={-70222: {"inputs": 1}},
    texts={"output_ids": b""},
)
for broken in (
    b"", cbor.encode({}), [1], [[1, 0, 0]], [[1, 0, 0, "a"]], [[True, 0, 0, b"a"]],
    [[1, 0, 0, b"a"]], [[6, 0, 0, b""]], [[6, 0, 0, b"Stop"]],
    [[7, 0, 0, b"a"], [6, 0, 0, b"stop"]], [[0, 0, 0, b"a"], [6, 0, 0, b"stop"]],
    [[1, 0, 0, b""], [6, 0, 0, b"stop"]], [[1, 0, 0, b"\xff"], [6, 0, 0, b"stop"]],
    [[1, 0, 1, b"a"], [6, 0, 0, b"stop"]],
    [[6, 0, 0, b"stop"], [1, 0, 0, b"a"]], [[6, 0, 0, b"stop"], [6, 0, 0, b"stop"]],
    [[4, 0, 0, b"a"], [6, 0, 0, b"stop"]], [[5, 0, 0, b"abc"], [6, 0, 0, b"stop"]],
    [[6, 65_536, 0, b"stop"]], [[2, 0, 0, b"a"], [1, 0, 0, b"a"], [6, 0, 0, b"stop"]],
):  # fmt: skip
    data = broken if isinstance(broken, bytes) else cbor.encode(broken)
    change(20, "transcript-format", texts={"transcript": data})
change(20, "finish-reason", texts={"transcript": cbor.encode([[6, 0, 0, b"length"]])})
change(21, "seed", statement={-70223: 7}, admission={-70223: 7})


@case(21, "seed")
def seed_from_no_nonce(made):
    del made.statement[-70207], made.admission[-70207]


@case(21, "expected-request")
def another_request(made):
    return {"request": b"{}"}


@open_case(21, "no-salt-request")
def request_without_salt(made):
    made.kept_salts = {"request"}
    return {"request": b'{"messages":[]}', "need": ("A0",)}


@case(21, "expected-response")
def another_response(made):
    return {"response": cbor.encode([[1, 0, 0, b"hallo"], [6, 0, 0, b"stop"]])}


@case(21, "expected-response")
def no_response_at_all(made):
    return {"response": b"{"}


@open_case(21, "no-salt-transcript")
def response_without_salt(made):
    made.kept_salts = {"transcript"}
    return {"response": made.texts["transcript"], "need": ("A0",)}


@open_case(21, "no-transcript")
def prefix_without_transcript(made):
    made.parts["transcript"] = None
    return {"response": b"", "prefix": True, "need": ("A0",)}


# steps 22 to 25
change(22, "no-revocations", "INCOMPLETE", trust=trust_text(revocations=REQUIRED))
change(22, "revocations-format", parts={"revocations": b""})
change(22, "revocations-format", revocations={1: 1})
change(22, "revocations-format", revocations=listed(), kinds={"revocations": "release"})
change(22, "revocations-signature", revocations=listed(), flip={"revocations"})
change(22, "revocations-key", "INCOMPLETE", revocations=listed(), **keys(revoke=None))
change(22, "revocations-key", "INCOMPLETE", revocations=listed(keys=[ID["revoke"]]))
change(22, "revocations-key", "INCOMPLETE", revocations=listed(), **keys(revoke=("witness", "")))
for name, seconds in (("not_before", NOW // 1000 + 1), ("not_after", NOW // 1000)):
    window = f'{name} = "{instant(seconds)}"'
    change(
        22, "revocations-key", "INCOMPLETE", revocations=listed(), **keys(revoke=("revoke", window))
    )
change(
    22,
    "revocations-not-yet-valid",
    "INCOMPLETE",
    revocations=listed(issued=NOW // 1000 + 1),
)
change(
    22,
    "revocations-old",
    "INCOMPLETE",
    revocations=listed(),
    trust=trust_text(revocations=REQUIRED + "minimum_sequence = 6\n"),
)
change(
    22,
    "revocations-stale",
    "INCOMPLETE",
    revocations=listed(issued=NOW // 1000 - DAY),
    trust=trust_text(revocations=REQUIRED + "maximum_age_days = 1\n"),
)
change(23, "no-release", "INCOMPLETE", release_signers=[])
change(23, "no-release", "INCOMPLETE", statement={-70211: bytes(32)})
change(23, "no-release", "INCOMPLETE", statement={-70102: ..., -70103: ..., -70211: ...})
change(23, "release-format", parts={"releases": [b""]})
change(23, "release-format", release={-70107: [3]})
change(23, "release-format", release={-70105: 5})
change(23, "release-format", kinds={"release": "statement"})
change(23, "release-differs", release={-70103: 4})
change(23, "release-differs", release={-70102: "chat-9b"})
change(23, "release-differs", release={-70101: bytes(32)})
change(24, "release-signature", flip={"release"})
change(24, "release-signer", release_signers=["weights3"])
change(24, "release-unknown-signer", "INCOMPLETE", release_signers=["stranger"])
change(24, "release-unknown-signer", "INCOMPLETE", release_signers=["witness"])
change(24, "release-unknown-line", "INCOMPLETE", trust=trust_text(line_name="chat-9b"))
change(24, "release-key-revoked", "INCOMPLETE", revocations=listed(keys=[ID["weights"]]))
for reason, window in (
    ("release-key-expired", f'not_after = "{instant(NOW // 1000)}"'),
    ("release-key-not-yet-valid", f'not_before = "{instant(STARTED // 1000 + 1)}"'),
):
    change(24, reason, "INCOMPLETE", **keys(weights=("weights", window)))
change(
    24,
    "release-threshold",
    "INCOMPLETE",
    release_signers=["weights", "weights", "weights3", "stranger"],
    trust=trust_text(line='signers = ["weights", "weights2"]\nthreshold = 2\n'),
)
change(25, "model-revoked", revocations=listed(models=[MODEL]))
change(25, "model-revoked", revocations=listed(models=[MODEL]), release_signers=[])
change(25, "release-not-yet-valid", release={-70104: STARTED // 1000 + 1})
change(25, "release-expired", release={-70105: STARTED // 1000})
change(
    25,
    "release-too-old",
    trust=trust_text(line='signers = ["weights"]\nthreshold = 1\nminimum_release = 4\n'),
)
