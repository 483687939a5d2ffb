"""Vectors of steps 1 to 17 and 22 to 25: signatures, keys, the log, and the release."""

from __future__ import annotations

from crypto import cbor
from tests.verifier.bundle_case import (
    DAY,
    LOG,
    MODEL,
    NONCE,
    NOW,
    STARTED,
    instant,
    signer,
    sm3,
    trust_text,
)
from tests.verifier.vector_case import Table, envelope
from verifier.expectations import Head

ID = {name: signer(name).key_id for name in ("attest", "attest2", "weights", "revoke")}
SECOND = NOW // 1000
LISTED = {-70121: 5, -70122: SECOND - 10, -70123: [], -70124: []}
REQUIRED = "[revocations]\n"
SIGNED = Table("signed")


def until(seconds, role="attest", name=None):
    text = f'not_after = "{instant(seconds)}"'
    return {"trust": trust_text(keys={name or role: (role, text)})}


def since(seconds, role="attest", name=None):
    text = f'not_before = "{instant(seconds)}"'
    return {"trust": trust_text(keys={name or role: (role, text)})}


def pinned(made):
    return {"head": Head(made.checkpoint.get(-70241, 11), made.root)}


def bundles(t):
    t.passes("valid")
    t.passes("expected-all", expected=lambda made: {
        "signer": ID["attest"], "model": MODEL, "nonce": NONCE, "after": STARTED,
        "before": STARTED + 5000, "head": Head(11, made.root, LOG),
    })  # fmt: skip
    t.fails(1, "bundle-format", "empty", edit=lambda _: b"")
    t.fails(1, "bundle-format", "version-2", parts={"version": 2})
    t.fails(1, "bundle-format", "unknown-part", parts={"more": b""})
    t.fails(1, "bundle-format", "no-statement", parts={"statement": None})
    t.fails(1, "bundle-format", "hash-of-31-bytes", parts={"inclusion": [bytes(31)]})
    t.fails(1, "bundle-format", "inclusion-of-65", parts={"inclusion": [bytes(32)] * 65})
    t.fails(13, "inclusion", "of-64", parts={"inclusion": [bytes(32)] * 64})
    t.fails(1, "bundle-format", "consistency-of-129", parts={"consistency": [bytes(32)] * 129})
    t.fails(16, "consistency", "of-128", parts={"consistency": [bytes(32)] * 128})
    t.fails(1, "bundle-format", "17-releases", parts={"releases": [b""] * 17})
    t.fails(1, "bundle-format", "17-cosignatures", parts={"cosignatures": [b""] * 17})
    t.passes("16-bad-cosignatures", parts={"cosignatures": [b""] * 16})
    t.fails(1, "bundle-format", "trace-root-of-31", parts={"trace_root": bytes(31)})
    t.fails(1, "bundle-format", "unknown-salt", salts={"more": bytes(32)})
    t.fails(1, "bundle-format", "salt-of-33", parts={"salts": {"request": bytes(33)}})
    t.fails(1, "bundle-format", "too-many-items", parts={"inclusion": list(range(1024))})


def statements(t):
    t.fails(2, "statement-format", "empty", parts={"statement": b""})
    t.fails(2, "statement-type", kinds={"statement": "admission"})
    t.fails(3, "statement-claims", "unknown-key", statement={-70299: 0})
    t.fails(3, "statement-claims", "boolean-for-number", statement={-70204: True})
    t.fails(3, "statement-claims", "2-to-53", statement={-70230: 1 << 53})
    t.passes("largest-number", statement={-70230: (1 << 53) - 1})
    t.fails(3, "statement-claims", "ended-before-started", statement={-70206: STARTED - 1})
    t.fails(3, "statement-claims", "line-alone", statement={-70103: ..., -70211: ...})
    t.fails(3, "statement-claims", "33-parameters", statement={
        -70222: {f"p{number}": 0 for number in range(33)}
    })  # fmt: skip
    t.fails(3, "statement-claims", "line-feed-in-line", statement={-70102: "chat-8b\n"})
    t.fails(3, "statement-claims", "coverage-32", statement={-70232: 32})
    t.fails(3, "statement-claims", "a-trace-without-layers", statement={-70228: [4, 0, 576]})
    t.fails(3, "statement-claims", "head-above-sequence", statement={-70231: [9, bytes(32)]})
    t.fails(4, "key-role", trust=trust_text(keys={"attest": ("witness", "")}))
    t.open(4, "unknown-key", trust=trust_text(keys={"attest": None}))
    t.fails(5, "statement-signature", flip={"statement"})
    t.open(6, "key-not-yet-valid", **since(STARTED // 1000 + 1))
    t.passes("key-begins-as-it-starts", admission={-70205: STARTED}, **since(SECOND - 60))
    t.open(6, "key-expired", "at-the-end", **until(STARTED // 1000 + 5))
    t.open(6, "key-expired", "at-verification", **until(SECOND))
    t.passes("key-ends-after-verification", **until(SECOND + 1))
    t.passes("key-expired-and-pinned", expected=pinned, **until(SECOND))
    t.open(6, "key-expired", "at-the-end-and-pinned", expected=pinned, **until(STARTED // 1000 + 5))
    revoked = {"revocations": LISTED | {-70123: [ID["attest"]]}}
    t.open(6, "key-revoked", **revoked)
    t.passes("key-revoked-and-pinned", expected=pinned, **revoked)
    t.open(13, "no-inclusion", "and-pinned", expected=pinned, parts={"inclusion": None})
    t.open(7, "mode-dev", statement={-70213: "dev"})
    t.open(7, "load-unsigned", statement={-70212: "unsigned"})
    t.open(7, "not-covered", statement={-70232: 30})
    t.open(7, "not-covered", "without-trace", statement={-70228: [0] * 3}, texts={"trace": b""})
    t.fails(8, "from-the-future", expected={"at": STARTED + 5000 - 300_001})
    t.passes("five-minutes-ahead", expected={"at": STARTED + 5000 - 300_000})
    t.fails(9, "expected-signer", expected={"signer": ID["attest2"]})
    t.fails(9, "expected-model", expected={"model": bytes(32)})
    t.fails(9, "expected-nonce", expected={"nonce": bytes(32)})
    drawn = {-70207: ..., -70224: "server"}
    t.fails(9, "expected-nonce", "absent", statement=drawn, admission=drawn,
            expected={"nonce": NONCE})  # fmt: skip
    t.passes("seed-of-the-server", statement=drawn, admission=drawn)
    t.fails(9, "expected-window", "early", expected={"after": STARTED + 1})
    t.fails(9, "expected-window", "late", expected={"before": STARTED + 4999})


def log(t):
    t.open(10, "no-checkpoint", parts={"checkpoint": None})
    t.open(10, "no-checkpoint", "and-head", parts={"checkpoint": None},
           expected={"head": Head(11, bytes(32)), "need": ("A0",)})  # fmt: skip
    t.fails(10, "checkpoint-format", parts={"checkpoint": b"\xd2"})
    t.fails(10, "checkpoint-type", kinds={"checkpoint": "cosignature"})
    t.fails(10, "checkpoint-claims", checkpoint={-70241: 0})
    t.fails(11, "checkpoint-log", checkpoint={-70202: bytes(32)})
    t.fails(11, "checkpoint-role", signers={"checkpoint": "witness"})
    t.fails(11, "checkpoint-signature", flip={"checkpoint"})
    t.open(11, "checkpoint-key", signers={"checkpoint": "stranger"})
    t.open(11, "checkpoint-key", "expired", signers={"checkpoint": "attest2"},
           **until(SECOND, "attest", "attest2"))  # fmt: skip
    t.open(12, "log-not-pinned", trust=trust_text(logs={"main": bytes(32)}))
    t.open(13, "no-inclusion", parts={"inclusion": None})
    t.fails(13, "inclusion", "empty", parts={"inclusion": []})
    t.fails(13, "inclusion", "another-root", checkpoint={-70242: bytes(32)})
    t.fails(13, "inclusion", "small-tree", checkpoint={-70241: 8}, parts={"inclusion": None})
    t.open(14, "no-admission", parts={"admission": None})
    t.fails(14, "admission-format", parts={"admission": b""})
    t.fails(14, "admission-type", kinds={"admission": "statement"})
    t.fails(14, "admission-claims", admission={-70209: "answered"})
    t.fails(14, "admission-role", signers={"admission": "weights"})
    t.fails(14, "admission-signature", flip={"admission"})
    t.open(14, "admission-key", signers={"admission": "stranger"})
    for name, change in {
        "log": {-70202: bytes(32)}, "sequence": {-70203: 4}, "time": {-70205: STARTED + 1},
        "nonce": {-70207: bytes(32)}, "no-nonce": {-70207: ...}, "model": {-70101: bytes(32)},
        "principal": {-70219: bytes(range(16))}, "parameters": {-70222: {}},
        "parameter": {-70222: {"temperature_millionths": 700_001}}, "seed": {-70223: 5},
        "seed-source": {-70224: "server"},
    }.items():  # fmt: skip
        t.fails(14, "admission-differs", name, admission=change)
    t.fails(14, "admission-differs", "request", request_commitment=bytes(32))
    t.fails(14, "admission-differs", "by-a-stranger", admission={-70223: 5},
            signers={"admission": "stranger"})  # fmt: skip
    t.open(15, "no-admission-inclusion", parts={"admission_inclusion": None})
    t.fails(15, "admission-inclusion", parts={"admission_inclusion": [bytes(32)]})
    t.fails(15, "admission-inclusion", "by-a-stranger", signers={"admission": "stranger"},
            parts={"admission_inclusion": [bytes(32)]})  # fmt: skip
    t.open(16, "no-consistency", parts={"consistency": None})
    t.fails(16, "consistency", "empty", parts={"consistency": []})
    t.fails(16, "consistency", "another-root", statement={-70231: [6, bytes(32)]})
    t.fails(16, "consistency", "no-root-of-nothing", statement={-70231: [0, bytes(32)]},
            parts={"consistency": None})  # fmt: skip
    for earlier in (0, 1, 4, 7, 8):
        t.passes(f"earlier-head-{earlier}", earlier=earlier)
    t.passes("earlier-head-0-without-proof", earlier=0, parts={"consistency": None})
    t.fails(16, "consistency", "proof-of-nothing", earlier=0, parts={"consistency": [bytes(32)]})
    t.fails(17, "expected-head", "root", expected={"head": Head(11, bytes(32))})
    t.fails(17, "expected-head", "log",
            expected=lambda made: {"head": Head(11, made.root, bytes(32))})  # fmt: skip
    t.open(17, "head-differs", expected={"head": Head(12, bytes(32)), "need": ("A0",)})
    t.open(17, "head-differs", "smaller", expected={"head": Head(10, bytes(32), LOG)})
    t.passes("witnesses", cosignatures=["witness", "stranger", "attest"])
    other = {-70202: LOG, -70241: 11, -70242: bytes(32), -70243: NOW - 1}
    t.passes("a-witness-of-another-head", parts={
        "cosignatures": [envelope(cbor.encode(other), "windhover/cosignature;v=1", "witness")]
    })  # fmt: skip
    t.passes("only-the-statement-is-needed", expected={"need": ("A0",)}, parts=dict.fromkeys(
        ("checkpoint", "admission", "inclusion", "salts", "request", "transcript", "releases")
    ))  # fmt: skip


def releases(t):
    t.open(22, "no-revocations", trust=trust_text(revocations=REQUIRED))
    t.passes("list-not-required", trust=trust_text(revocations=REQUIRED + "required = false\n"))
    t.fails(22, "revocations-format", parts={"revocations": b""})
    t.fails(22, "revocations-format", "claims", revocations={1: 1})
    t.fails(22, "revocations-format", "type", revocations=LISTED,
            kinds={"revocations": "release"})  # fmt: skip
    t.fails(22, "revocations-format", "descending",
            revocations=LISTED | {-70123: [b"b" * 32, b"a" * 32]})  # fmt: skip
    t.fails(22, "revocations-signature", revocations=LISTED, flip={"revocations"})
    without = trust_text(keys={"revoke": None})
    t.open(22, "revocations-key", "unknown", revocations=LISTED, trust=without)
    t.open(22, "revocations-key", "role", revocations=LISTED,
           trust=trust_text(keys={"revoke": ("witness", "")}))  # fmt: skip
    t.open(22, "revocations-key", "itself", revocations=LISTED | {-70123: [ID["revoke"]]})
    t.open(22, "revocations-key", "early", revocations=LISTED, **since(SECOND + 1, "revoke"))
    t.open(22, "revocations-key", "late", revocations=LISTED, **until(SECOND, "revoke"))
    t.open(22, "revocations-not-yet-valid", revocations=LISTED | {-70122: SECOND + 1})
    rules = REQUIRED + "minimum_sequence = {}\nmaximum_age_days = 1\n"
    t.open(22, "revocations-old", revocations=LISTED, trust=trust_text(revocations=rules.format(6)))
    t.open(22, "revocations-stale", revocations=LISTED | {-70122: SECOND - DAY},
           trust=trust_text(revocations=rules.format(5)))  # fmt: skip
    t.passes("list-in-its-last-second", revocations=LISTED | {-70122: SECOND - DAY + 1},
             trust=trust_text(revocations=rules.format(5)))  # fmt: skip
    many = sorted(sm3(b"%d" % number) for number in range(901))
    t.passes("list-of-900", revocations=LISTED | {-70123: many[:900]})
    t.fails(22, "revocations-format", "901", revocations=LISTED | {-70123: many})
    t.open(23, "no-release", release_signers=[])
    t.open(23, "no-release", "of-this-payload", statement={-70211: bytes(32)})
    t.open(23, "no-release", "claimed", statement={-70102: ..., -70103: ..., -70211: ...})
    t.fails(23, "release-format", parts={"releases": [b""]})
    t.fails(23, "release-format", "type", kinds={"release": "statement"})
    t.fails(23, "release-format", "expiry", release={-70105: SECOND - DAY})
    t.fails(23, "release-format", "superseded", release={-70107: [3]})
    t.fails(23, "release-format", "payload-of-1025", payloads={
        "release": lambda data: data + bytes(1025 - len(data))
    })  # fmt: skip
    for name, change in {
        "number": {-70103: 4}, "line": {-70102: "chat-9b"}, "model": {-70101: bytes(32)},
    }.items():  # fmt: skip
        t.fails(23, "release-differs", name, release=change)
    t.fails(24, "release-signature", flip={"release"})
    t.fails(24, "release-signer", release_signers=["weights3"])
    t.open(24, "release-unknown-signer", release_signers=["stranger"])
    t.open(24, "release-unknown-signer", "of-another-role", release_signers=["witness"])
    t.open(24, "release-unknown-line", trust=trust_text(line_name="chat-9b"))
    t.open(24, "release-key-revoked", expected=pinned,
           revocations=LISTED | {-70123: [ID["weights"]]})  # fmt: skip
    t.open(24, "release-key-expired", **until(SECOND, "weights"))
    t.passes("release-key-expired-and-pinned", expected=pinned, **until(SECOND, "weights"))
    t.open(24, "release-key-not-yet-valid", **since(STARTED // 1000 + 1, "weights"))
    both = trust_text(line='signers = ["weights", "weights2"]\nthreshold = 2\n')
    t.open(24, "release-threshold", release_signers=["weights", "weights"], trust=both)
    t.passes("two-of-two", release_signers=["weights", "weights2"], trust=both)
    t.passes("a-stranger-besides", release_signers=["stranger", "weights"])
    t.fails(25, "model-revoked", revocations=LISTED | {-70124: [MODEL]})
    t.fails(25, "model-revoked", "without-release", release_signers=[],
            revocations=LISTED | {-70124: [MODEL]})  # fmt: skip
    t.fails(25, "release-not-yet-valid", release={-70104: STARTED // 1000 + 1})
    t.fails(25, "release-expired", release={-70105: STARTED // 1000})
    t.passes("release-without-end", release={-70105: ...})
    t.fails(25, "release-too-old", trust=trust_text(
        line='signers = ["weights"]\nthreshold = 1\nminimum_release = 4\n'
    ))  # fmt: skip
    t.passes("least-release", trust=trust_text(
        line='signers = ["weights"]\nthreshold = 1\nminimum_release = 3\n'
    ))  # fmt: skip


def trust_files(t):
    good = trust_text()
    t.passes("trust-of-65536-bytes", trust=good + "#" * (65_536 - len(good)))
    t.passes("trust-with-crlf", trust=good.replace("\n", "\r\n"))
    t.passes("trust-with-comments", trust="# ключ 密钥\n" + good + "[policy]\n\t # end")
    for name, text in {
        "version-2": good.replace("version = 1", "version = 2"),
        "byte-order-mark": "\ufeff" + good,
        "carriage-return": good.replace("\n", "\r"),
        "unknown-table": good + "[more]\n",
        "unknown-role": good.replace('"attest"', '"attests"'),
        "key-twice": good.replace("[keys.attest2]", "[keys.attest]"),
        "threshold-3": good.replace("threshold = 1", "threshold = 3"),
        "leading-zero": good.replace("threshold = 1", "threshold = 01"),
        "log-in-upper-case": good.replace(LOG.hex(), LOG.hex().upper()),
        "29-february-2027": trust_text(
            keys={"attest": ("attest", 'not_after = "2027-02-29T00:00:00Z"')}
        ),
        "no-key-for-the-list": trust_text(keys={"revoke": None}, revocations=REQUIRED),
        "direction-mark-in-comment": good + "# \u202e\n",
    }.items():
        t.usage(f"trust-{name}", trust=text)


bundles(SIGNED)
statements(SIGNED)
log(SIGNED)
releases(SIGNED)
trust_files(SIGNED)
