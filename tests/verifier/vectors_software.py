"""Vectors of software manifests: what they are worth, while the verdict stays what it was."""

from __future__ import annotations

from crypto import cbor
from tests.verifier.bundle_case import KEYS, NOW, instant, signer, trust_text
from tests.verifier.vector_case import Table, envelope

SECOND = NOW // 1000
TYPE = "windhover/software;v=1"
SOFTWARE = Table("software")
MANIFEST = {
    -70301: "windhover", -70302: [1, 2, 3], -70214: bytes(32), -70303: 31_139,
    -70304: 1_170_000_000, -70305: bytes(range(32)), -70306: ["avx2-x86-64-v3", "avx512-x86-64-v4"],
    -70307: ["wh1"], -70122: SECOND - 86_400,
}  # fmt: skip
PAYLOAD = cbor.encode(MANIFEST)
OTHER = MANIFEST | {-70214: bytes(range(32, 64)), -70302: [1, 3, 0]}
SIGNER = signer("software").key_id
LISTED = {-70121: 5, -70122: SECOND - 10, -70123: [], -70124: []}


def keys(extra="", role="software"):
    """Return a trust file that has the key `software`."""
    return trust_text(keys={"software": (role, extra)})


def manifest(claims=MANIFEST, name="software", typ=TYPE, **parts):
    """Return a manifest put together by hand; bytes are taken as they are."""
    payload = claims if isinstance(claims, bytes) else cbor.encode(claims)
    return envelope(payload, typ, name, **parts)


def without(claim):
    return {key: value for key, value in MANIFEST.items() if key != claim}


# name: the bytes of what is no manifest
MALFORMED = {
    "empty": b"",
    "no-tag": manifest()[1:],
    "trailing-byte": manifest() + b"\0",
    "cut": manifest()[:-1],
    "of-4097": manifest().ljust(4097, b"\0"),
    "type-release": manifest(typ="windhover/release;v=1"),
    "type-version-2": manifest(typ="windhover/software;v=2"),
    "another-algorithm": manifest(header={1: -7, 4: bytes(32), 16: TYPE}),
    "unprotected": manifest(unprotected=b"\xa1\x01\x01"),
    "payload-array": manifest(cbor.encode([1])),
    "payload-trailing-byte": manifest(PAYLOAD + b"\0"),
    "payload-long-form": manifest(PAYLOAD.replace(b"\x19\x79\xa3", b"\x1a\0\0\x79\xa3")),
    "payload-key-order": manifest(b"\xa2\x02\x01\x01\x01"),
    "payload-of-2049": manifest(MANIFEST | {-70306: ["a" * 64] * 30}),
    "unknown-claim": manifest(MANIFEST | {-70999: 1}),
    "text-claim": manifest(MANIFEST | {"more": 1}),
    **{f"without-{-claim}": manifest(without(claim)) for claim in MANIFEST},
    **{
        f"claim-{name}": manifest(MANIFEST | claims)
        for name, claims in {
            "product-empty": {-70301: ""},
            "product-in-upper-case": {-70301: "Windhover"},
            "product-of-65": {-70301: "a" * 65},
            "product-bytes": {-70301: b"windhover"},
            "version-of-two": {-70302: [1, 2]},
            "version-text": {-70302: "1.2.3"},
            "version-boolean": {-70302: [1, 2, True]},
            "version-65536": {-70302: [1, 2, 65_536]},
            "version-negative": {-70302: [-1, 2, 3]},
            "digest-of-31": {-70214: bytes(31)},
            "digest-text": {-70214: "0" * 64},
            "no-files": {-70303: 0},
            "files-100001": {-70303: 100_001},
            "bytes-above-2-53": {-70304: 1 << 53},
            "bytes-negative": {-70304: -1},
            "list-of-33": {-70305: bytes(33)},
            "nine-kernels": {-70306: [f"a{i}" for i in range(9)]},
            "kernels-not-ascending": {-70306: ["b", "a"]},
            "kernel-twice": {-70306: ["a", "a"]},
            "kernel-with-dot": {-70306: ["a.b"]},
            "kernel-with-hyphen-first": {-70306: ["-a"]},
            "kernel-of-65": {-70306: ["a" * 65]},
            "kernel-number": {-70306: [1]},
            "no-profile": {-70307: []},
            "profile-line-end": {-70307: ["wh1\n"]},
            "issued-negative": {-70122: -1},
            "issued-text": {-70122: "now"},
        }.items()
    },
}  # fmt: skip


def add(name, results, *, step=None, verdict="PASS", reason="ok", manifests=None, **parts):
    """Add a vector: each manifest has its result, with release and signer or without."""
    given = (manifest(),) if manifests is None else manifests
    parts = {"trust": keys()} | parts
    SOFTWARE.add(name, step, verdict, reason, expected={"software": given}, **parts)
    SOFTWARE.vectors[-1].software = [[result, *(more or (None, None))] for result, *more in results]


BELIEVED = ("ok", "windhover 1.2.3", "software")
DIFFERS = ("software-differs", "windhover 1.3.0", "software")


def results():
    add("ok", [BELIEVED])
    add("ok-no-kernels", [BELIEVED], manifests=(manifest(MANIFEST | {-70306: []}),))
    add("differs", [DIFFERS], manifests=(manifest(OTHER),))
    add("ok-and-differs", [DIFFERS, BELIEVED], manifests=(manifest(OTHER), manifest()))
    add("unknown-signer", [("software-unknown-signer",)], trust=trust_text())
    for role in ("weights", "attest", "witness", "revoke", "unseal"):
        add(f"role-{role}", [("software-unknown-signer",)], trust=keys(role=role))
    for name in ("attest", "weights", "revoke", "witness"):
        assert KEYS[name][0] == name
        add(f"by-{name}", [("software-unknown-signer",)], manifests=(manifest(name=name),))
    flipped = manifest()[:-1] + bytes([manifest()[-1] ^ 1])
    add("bad-signature", [("software-bad-signature",)], manifests=(flipped,))
    other = cbor.encode(OTHER)
    swapped = manifest(wrap=lambda _: cbor.encode(other))
    add("payload-of-another", [("software-bad-signature",)], manifests=(swapped,))
    over = keys(f'not_after = "{instant(SECOND)}"')
    revoking = LISTED | {-70123: [SIGNER]}
    add("key-expired", [("software-key-expired",)], trust=over)
    add("key-not-yet-valid", [("software-key-not-yet-valid",)],
        trust=keys(f'not_before = "{instant(SECOND - 59)}"'))  # fmt: skip
    window = f'not_before = "{instant(SECOND - 60)}"\nnot_after = "{instant(SECOND + 1)}"'
    add("key-in-time", [BELIEVED], trust=keys(window))
    add("key-revoked", [("software-key-revoked",)], revocations=revoking)
    both = [("software-key-revoked",)]
    add("key-revoked-and-expired", both, trust=over, revocations=revoking)
    add("sixteen", [DIFFERS] * 16, manifests=(manifest(OTHER),) * 16)
    add("seventeen", [], verdict=None, reason="usage", manifests=(manifest(),) * 17)
    for name, data in MALFORMED.items():
        add(f"format-{name}", [("software-format",)], manifests=(data,))


def verdicts():
    """The verdict is the one without a manifest."""
    add("dev", [BELIEVED], step=7, verdict="INCOMPLETE", reason="mode-dev",
        statement={-70213: "dev"})  # fmt: skip
    add("unsigned-statement", [("software-no-statement",)], step=5, verdict="FAIL",
        reason="statement-signature", flip={"statement"})  # fmt: skip
    add("no-statement", [("software-no-statement",)], step=3, verdict="FAIL",
        reason="statement-claims", statement={-70213: "test"})  # fmt: skip
    add("no-bundle", [("software-no-statement",)], step=1, verdict="FAIL",
        reason="bundle-format", edit=lambda _: b"")  # fmt: skip
    add("unknown-attest-key", [("software-no-statement",)], step=4, verdict="INCOMPLETE",
        reason="unknown-key", signers={"statement": "stranger"})  # fmt: skip


results()
verdicts()
