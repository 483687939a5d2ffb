"""Vectors: a bundle whose every byte follows from this file, and the list that they are kept in."""

from __future__ import annotations

from functools import cache

from crypto import cbor
from crypto.sm2_curve import N
from crypto.sm2_digest import DEFAULT_ID, message_digest
from crypto.sm2_points import multiply_generator
from tests import altered
from tests.verifier.bundle_case import NOW, Made, signer, sm3

ALGORITHM = -70001


@cache
def fixed_signature(message, name):
    """Return r || s over a message with a nonce that follows from both: for vectors alone."""
    secret = sm3(b"windhover verifier test ", name.encode())
    digest = message_digest(signer(name).public_key.point, message, DEFAULT_ID)
    d, k = (int.from_bytes(part, "big") for part in (secret, sm3(b"nonce", secret, digest)))
    k = 1 + k % (N - 1)
    r = (int.from_bytes(digest, "big") + multiply_generator(k).x) % N
    s = pow(1 + d, -1, N) * (k - r * d) % N
    assert 0 not in {r, s, (r + k) % N}
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def header_of(typ, name, algorithm=ALGORITHM):
    return {1: algorithm, 4: signer(name).key_id, 16: typ}


def envelope(
    payload, typ, name, *, header=None, unprotected=b"\xa0", tag=b"\xd2\x84", wrap=None, end=None
):
    """Return a signed object put together by hand, so that each of its parts can be wrong."""
    header = header_of(typ, name) if header is None else header
    header = header if isinstance(header, bytes) else cbor.encode(header)
    message = b"\x84\x6aSignature1" + cbor.encode(header) + b"\x40" + cbor.encode(payload)
    signature = fixed_signature(message, name)
    end = cbor.encode(signature) if end is None else end(signature)
    held = cbor.encode(payload) if wrap is None else wrap(payload)
    return tag + cbor.encode(header) + unprotected + held + end


class Fixed(Made):
    """A bundle of which each payload, envelope and the whole can be rewritten as bytes."""

    def __init__(self):
        super().__init__()
        self.payloads = {}  # kind: what becomes of its payload's bytes
        self.envelopes = {}  # kind: arguments of `envelope`
        self.edit = None  # what becomes of the bundle's bytes

    def make(self, kind, claims, name):
        payload = claims if isinstance(claims, bytes) else cbor.encode(claims)
        payload = self.payloads.get(kind, bytes)(payload)
        typ = f"windhover/{self.kinds[kind]};v=1"
        data = envelope(payload, typ, name, **self.envelopes.get(kind, {}))
        return altered.last_byte(data) if kind in self.flip else data

    def bundle(self):
        data = super().bundle()
        return data if self.edit is None else self.edit(data)

    def set(self, attributes):
        """Set attributes; of one that is a map, entries, and `...` takes one out."""
        for name, value in attributes.items():
            held = getattr(self, name)
            if isinstance(held, dict):
                held |= value
                for key in [key for key, entry in held.items() if entry is ...]:
                    del held[key]
            else:
                setattr(self, name, value)


class Vector:
    """A name, what was changed, what is expected by the auditor, and what he must be told."""

    def __init__(self, name, step, verdict, reason, attributes, expected):
        self.name, self.step, self.verdict, self.reason = name, step, verdict, reason
        self.attributes, self.expected = attributes, expected
        self.software = []  # what is reported of each software manifest

    def inputs(self):
        """Return bundle, trust file and expectations."""
        made = Fixed()
        made.set(self.attributes)
        bundle = made.bundle()
        expected = self.expected(made) if callable(self.expected) else self.expected
        return bundle, made.trust.encode(), {"at": NOW} | expected


class Table:
    """Vectors of a family, in the order in which they were added."""

    def __init__(self, family):
        self.family = family
        self.vectors = []

    def add(self, name, step, verdict, reason, *, expected=(), **attributes):
        expected = dict(expected) if not callable(expected) else expected
        name = f"{self.family}-{name}"
        self.vectors.append(Vector(name, step, verdict, reason, attributes, expected))

    def passes(self, name, **parts):
        self.add(name, None, "PASS", "ok", **parts)

    def fails(self, step, reason, name="", **parts):
        self.add(f"{step:02}-{reason}{name and '-' + name}", step, "FAIL", reason, **parts)

    def open(self, step, reason, name="", **parts):
        self.add(f"{step:02}-{reason}{name and '-' + name}", step, "INCOMPLETE", reason, **parts)

    def usage(self, name, **parts):
        self.add(name, None, None, "usage", **parts)
