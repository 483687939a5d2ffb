"""Vectors of encodings that mean what they should and are not the one form of it."""

from __future__ import annotations

from crypto import cbor
from tests.verifier.vector_case import Table, envelope, header_of
from tests.verifier.vectors_signed import LISTED

HOSTILE = Table("hostile")
OBJECTS = {
    "statement": (2, "statement-format", 3, "statement-claims"),
    "checkpoint": (10, "checkpoint-format", 10, "checkpoint-claims"),
    "admission": (14, "admission-format", 14, "admission-claims"),
    "revocations": (22, "revocations-format", 22, "revocations-format"),
    "release": (23, "release-format", 23, "release-format"),
}
FIRST = {"statement": -70101, "checkpoint": -70201, "admission": -70101} | {
    "revocations": -70121, "release": -70101,
}  # fmt: skip


def pairs(data):
    """Return the encoded pairs of a map."""
    return [cbor.encode(key) + cbor.encode(part) for key, part in cbor.decode(data).items()]


def head(major, count):
    short = bytes([major << 5 | count]) if count < 24 else bytes([major << 5 | 24, count])
    return short if count < 256 else bytes([major << 5 | 25]) + count.to_bytes(2, "big")


def rebuilt(change):
    """Return an edit of bytes that changes the list of a map's pairs."""

    def edit(data):
        changed = change(pairs(data))
        return head(5, len(changed)) + b"".join(changed)

    return edit


def widened(data):
    """Write the map's number of pairs in two bytes more than it needs."""
    return b"\xb9" + len(pairs(data)).to_bytes(2, "big") + b"".join(pairs(data))


def appended(part):
    return rebuilt(lambda found: [*found, part])


BEYOND = b"\x3a\x7f\xff\xff\xff"  # a key behind all others of a payload
PAYLOADS = {
    "wide-count": widened,
    "indefinite": lambda data: b"\xbf" + b"".join(pairs(data)) + b"\xff",
    "key-twice": rebuilt(lambda found: [found[0], *found]),
    "key-order": rebuilt(lambda found: [found[1], found[0], *found[2:]]),
    "wide-key": rebuilt(lambda found: [b"\x3b\0\0\0\0" + found[0][1:], *found[1:]]),
    "last-left-out": rebuilt(lambda found: found[:-1]),
    "cut": lambda data: data[:-1],
    "trailing-byte": lambda data: data + b"\0",
    "tagged": lambda data: b"\xc1" + data,
    "array": lambda data: b"\x81" + data,
    "text-key": appended(b"\x61a\0"),
    "null": appended(BEYOND + b"\xf6"),
    "float": appended(BEYOND + b"\xf9\x3c\x00"),
    "no-utf-8": appended(BEYOND + b"\x61\xff"),
    "depth-9": appended(BEYOND + b"\x81" * 8 + b"\0"),
    "long-length": appended(BEYOND + b"\x5b\x7f" + b"\xff" * 7),
    "empty": lambda _: b"",
}


def negative(kind):
    """Return an edit that puts the lowest number of all, -2^63, in place of one claim."""
    lowest = FIRST[kind]
    return lambda data: cbor.encode(cbor.decode(data) | {lowest: -(1 << 63)})


def envelopes(kind, name):
    """Return envelopes that are none, by name."""
    typ = f"windhover/{kind};v=1"
    good = header_of(typ, name)
    encoded = cbor.encode(good)
    return {
        "untagged": {"tag": b"\x84"},
        "another-tag": {"tag": b"\xd1\x84"},
        "wide-tag": {"tag": b"\xd8\x12\x84"},
        "five-parts": {"tag": b"\xd2\x85", "end": lambda s: cbor.encode(s) + b"\x40"},
        "unprotected": {"unprotected": b"\xa1\x04\x41\x00"},
        "detached": {"wrap": lambda _: b"\xf6"},
        "long-form": {"wrap": lambda p: b"\x5a" + len(p).to_bytes(4, "big") + p},
        "signature-of-63": {"end": lambda s: cbor.encode(s[:-1])},
        "signature-of-65": {"end": lambda s: cbor.encode(s + b"\0")},
        "trailing-byte": {"end": lambda s: cbor.encode(s) + b"\0"},
        "es256": {"header": good | {1: -7}},
        "no-algorithm": {"header": {4: good[4], 16: typ}},
        "critical-header": {"header": good | {2: [16]}},
        "header-order": {"header": b"\xa3" + encoded[6:7] + encoded[7:41] + encoded[1:6]
                         + encoded[41:]},
        "key-id-of-31": {"header": good | {4: bytes(31)}},
        "type-with-space": {"header": good | {16: typ + " "}},
        "type-as-number": {"header": good | {16: 5}},
        "empty-header": {"header": b""},
    }  # fmt: skip


# what every reader of an object is asked; the statement's is asked everything
COMMON = {
    *("payload-wide-count", "payload-indefinite", "payload-key-twice", "payload-key-order"),
    *("payload-trailing-byte", "payload-null", "payload-text-key", "payload-lowest-number"),
    *("untagged", "unprotected", "detached", "signature-of-63", "es256", "header-order"),
}


def objects(t):
    names = {"revocations": "revoke", "release": "weights"}
    for kind, (format_step, format_reason, step, reason) in OBJECTS.items():
        needed = {"revocations": LISTED} if kind == "revocations" else {}
        edits = PAYLOADS | {"lowest-number": negative(kind)}
        for name, edit in edits.items():
            if kind == "statement" or f"payload-{name}" in COMMON:
                t.fails(step, reason, f"payload-{name}", payloads={kind: edit}, **needed)
        for name, parts in envelopes(kind, names.get(kind, "attest")).items():
            if kind == "statement" or name in COMMON:
                t.fails(format_step, format_reason, name, envelopes={kind: parts}, **needed)
        version = {"header": header_of(f"windhover/{kind};v=2", names.get(kind, "attest"))}
        other = format_reason if kind in names else f"{kind}-type"
        t.fails(format_step, other, "version-2", envelopes={kind: version}, **needed)


def signatures(t):
    order = bytes.fromhex("fffffffeffffffffffffffffffffffff7203df6b21c6052b53bbf40939d54123")
    for name, change in {
        "zero-r": lambda s: bytes(32) + s[32:],
        "zero-s": lambda s: s[:32] + bytes(32),
        "r-is-the-order": lambda s: order + s[32:],
        "s-is-the-order": lambda s: s[:32] + order,
        "swapped": lambda s: s[32:] + s[:32],
        "all-ones": lambda _: b"\xff" * 64,
        "s-complement": lambda s: s[:32] + (
            int.from_bytes(order, "big") - int.from_bytes(s[32:], "big")
        ).to_bytes(32, "big"),
    }.items():  # fmt: skip
        t.fails(5, "statement-signature", name, envelopes={
            "statement": {"end": lambda s, change=change: cbor.encode(change(s))}
        })  # fmt: skip


def padded(size):
    """Return a signed object of a size, whose payload is no map."""
    typ, payload = "windhover/statement;v=1", cbor.encode(bytes(60_000))
    missing = size - len(envelope(payload, typ, "attest"))
    return envelope(cbor.encode(bytes(60_000 + missing)), typ, "attest")


def bundles(t):
    for name, edit in PAYLOADS.items():
        if name not in {"last-left-out", "text-key", "wide-key"}:
            t.fails(1, "bundle-format", name, edit=edit)
    t.fails(1, "bundle-format", "number-key", edit=rebuilt(lambda found: [b"\x00\x00", *found]))
    t.fails(1, "bundle-format", "version-true", parts={"version": True})
    t.fails(1, "bundle-format", "proto", parts={"__proto__": b""})
    t.fails(1, "bundle-format", "constructor", parts={"constructor": b""})
    t.fails(1, "bundle-format", "salts-proto", parts={"salts": {"__proto__": bytes(32)}})
    t.fails(3, "statement-claims", "parameter-in-upper-case", statement={-70222: {"A": 1}})
    for name in ("__proto__", "constructor"):
        parameters = {-70222: {name: 1}}
        t.passes(f"parameter-{name.strip('_')}", statement=parameters, admission=parameters)
    bounds = {-70222: {"a": -((1 << 53) - 1), "b": (1 << 53) - 1}}
    t.passes("parameters-at-their-bounds", statement=bounds, admission=bounds)
    t.fails(3, "statement-claims", "parameter-below-bound", statement={-70222: {"a": -(1 << 53)}})
    t.fails(14, "admission-differs", "seed-of-one-binary64", statement={-70223: (1 << 64) - 1},
            admission={-70223: (1 << 64) - 2})  # fmt: skip
    for size, step, reason in ((65_536, 3, "statement-claims"), (65_537, 2, "statement-format")):
        t.fails(step, reason, f"object-of-{size}", parts={"statement": padded(size)})


objects(HOSTILE)
signatures(HOSTILE)
bundles(HOSTILE)
