"""Bundles through both programs: verdict, reason, every step and the witnesses agree."""

from __future__ import annotations

import itertools

import pytest

from crypto import cbor
from tests.verifier.bundle_case import (
    DAY,
    LOG,
    NOW,
    STARTED,
    Made,
    instant,
    sign,
    signer,
    sm3,
    trust_text,
)
from tests.verifier.page.page_case import case_of, needs_node, run_cases
from tests.verifier.step_cases import CASES
from verifier.errors import UsageError
from verifier.expectations import Expectations, Head
from verifier.verify import verify

pytestmark = needs_node


class Compared:
    """Inputs collected for one run of Node, with what Python said about each."""

    def __init__(self):
        self.cases, self.wanted, self.names = [], [], []

    def add(self, name, bundle, trust, **expected):
        expected.setdefault("at", NOW)
        try:
            report = verify(bundle, trust, Expectations(**expected))
            steps = report.as_dict()["steps"]
            witnesses = [witness.name for witness in report.witnesses]
            self.wanted.append((report.verdict, report.reason, steps, witnesses))
        except UsageError:
            self.wanted.append((None, "usage", [], []))
        if head := expected.pop("head", None):
            if head.log_id is None:
                expected["head"] = f"{head.size}:{head.root.hex()}"
            else:
                expected["head_checkpoint"] = checkpoint_of(head)
        self.cases.append(case_of(bundle, trust, **expected))
        self.names.append(name)

    def run(self):
        found = []
        for answer in run_cases(self.cases):
            value = answer["value"]
            found.append(
                (value["verdict"], value["reason"], value["steps"], value.get("witnesses") or [])
            )
        differ = [
            (name, want, got)
            for name, want, got in zip(self.names, self.wanted, found, strict=True)
            if want != got
        ]
        assert not differ
        return [(verdict, reason) for verdict, reason, *_ in found]


def checkpoint_of(head):
    """Return a checkpoint that says what a head says."""
    claims = {-70201: "x", -70202: head.log_id, -70241: head.size, -70242: head.root}
    return sign("checkpoint", claims | {-70243: 0, -70244: bytes(32)}, "witness")


def test_each_reason():
    compared = Compared()
    for param in CASES:
        step, _, _, apply = param.values
        made = Made()
        expected = apply(made) or {}
        compared.add(f"{step} {apply.__name__}", made.bundle(), made.trust.encode(), **expected)
    found = compared.run()
    assert len(found) > 120
    assert found == [(param.values[2], param.values[1]) for param in CASES]


def test_heads_that_the_auditor_holds():
    """What such a head saves, of keys that are over: with every other thing beside it."""
    compared = Compared()
    over = f'not_after = "{instant(NOW // 1000)}"'
    for names, is_listed, head, has_proof in itertools.product(
        (("attest",), ("weights",), ("attest", "weights")),
        (False, True),
        ("none", "same", "other size", "other root", "other log"),
        (False, True),
    ):
        made = Made()
        keys = {name: (name, over) for name in names}
        made.trust = trust_text(keys=None if is_listed else keys)
        if is_listed:
            ids = sorted(signer(name).key_id for name in names)
            made.revocations = {-70121: 5, -70122: NOW // 1000 - 10, -70123: ids, -70124: []}
        if not has_proof:
            made.parts["inclusion"] = None
        bundle = made.bundle()
        held = {
            "none": None,
            "same": Head(11, made.root, LOG),
            "other size": Head(12, made.root),
            "other root": Head(11, bytes(32)),
            "other log": Head(11, made.root, bytes(32)),
        }[head]
        name = f"{names} {is_listed} {head} {has_proof}"
        compared.add(name, bundle, made.trust.encode(), head=held, at=NOW)
    found = set(compared.run())
    assert {("PASS", "ok"), ("INCOMPLETE", "key-expired"), ("INCOMPLETE", "key-revoked")} <= found
    assert {("INCOMPLETE", "release-key-revoked"), ("FAIL", "expected-head")} <= found


def valid():
    """Bundles of several kinds that mutations begin from."""
    found = [Made(), Made(), Made()]
    found[1].revocations = {-70121: 5, -70122: NOW // 1000 - 10, -70123: [], -70124: [bytes(32)]}
    found[1].cosignatures = ["witness"]
    found[1].release_signers = ["weights", "weights2"]
    found[2].earlier = 0
    found[2].statement[-70224] = found[2].admission[-70224] = "server"
    found[2].statement[-70223] = found[2].admission[-70223] = (1 << 64) - 1
    for claims in (found[2].statement, found[2].admission):
        del claims[-70207]
    return [(made.bundle(), made.trust.encode()) for made in found]


class Draws:
    """Numbers that follow from a seed."""

    def __init__(self, seed):
        self.seed, self.count = seed, 0

    def below(self, limit):
        self.count += 1
        return int.from_bytes(sm3(f"{self.seed} {self.count}".encode())[:6], "big") % limit


def mutated(data, draws):
    """Return the bytes with one to three of them altered, left out, doubled or swapped."""
    data = bytearray(data)
    for _ in range(1 + draws.below(3)):
        at = draws.below(len(data))
        kind = draws.below(5)
        if kind == 0:
            data[at] ^= 1 << draws.below(8)
        elif kind == 1:
            data[at] = draws.below(256)
        elif kind == 2:
            del data[at : at + 1 + draws.below(4)]
        elif kind == 3:
            data[at:at] = data[at : at + 1 + draws.below(8)]
        else:
            data[at] = (0, 1, 23, 24, 25, 27, 31, 64, 95, 128, 159, 160, 191, 192, 255)[
                draws.below(15)
            ]
        if not data:
            data = bytearray(b"\x00")
    return bytes(data)


def altered_value(value, draws):
    """Return a value of CBOR with one part of it altered, deep inside."""
    if isinstance(value, dict) and value and draws.below(4):
        key = list(value)[draws.below(len(value))]
        if draws.below(5) == 0:
            return {name: part for name, part in value.items() if name != key}
        return value | {key: altered_value(value[key], draws)}
    if isinstance(value, list) and value and draws.below(3):
        at = draws.below(len(value))
        return [*value[:at], altered_value(value[at], draws), *value[at + 1 :]]
    if isinstance(value, bytes):
        if value[:1] in (b"\xd2", b"\x82") and draws.below(2):
            return mutated(value, draws)
        return (value[:-1], value + b"\0", b"", bytes(len(value)), value)[draws.below(5)]
    if isinstance(value, int) and not isinstance(value, bool) and draws.below(2):
        return min(value + (1, -1, 256, 1 << 53)[draws.below(4)], (1 << 64) - 1)
    return (0, -1, 1 << 53, (1 << 64) - 1, "", "x", True, [], {}, b"", {1: 2})[draws.below(11)]


def fuzz(count, seed):
    compared = Compared()
    bases = valid()
    draws = Draws(seed)
    for number in range(count):
        bundle, trust = bases[number % len(bases)]
        kind = draws.below(6)
        if kind == 0:
            trust = mutated(trust, draws)
        elif kind == 1:
            bundle = mutated(bundle, draws)
        elif kind == 2:
            bundle = cbor.encode(altered_value(cbor.decode(bundle), draws))
        else:
            bundle = resigned(bundle, draws)
        at = NOW if draws.below(4) else (0, STARTED, NOW + 900 * DAY * 1000)[draws.below(3)]
        compared.add(f"{seed} {number}", bundle, trust, at=at)
    return compared.run()


SIGNERS = {"statement": "attest", "checkpoint": "attest", "admission": "attest"} | {
    "revocations": "revoke"
}


def resigned(bundle, draws):
    """Return a bundle with one object whose payload was altered and then signed."""
    parts = cbor.decode(bundle)
    names = [name for name in (*SIGNERS, "releases", "cosignatures") if parts.get(name)]
    name = names[draws.below(len(names))]
    kind = {"releases": "release", "cosignatures": "cosignature"}.get(name, name)
    objects = parts[name] if isinstance(parts[name], list) else [parts[name]]
    payload = cbor.decode(cbor.decode(objects[0][1:])[2])
    payload = altered_value(payload, draws)
    if draws.below(3) == 0:
        payload = altered_value(payload, draws)
    signers = {"release": "weights", "cosignature": "witness"} | SIGNERS
    made = sign(kind, payload if isinstance(payload, dict) else cbor.encode(payload), signers[kind])
    parts[name] = [made, *objects[1:]] if isinstance(parts[name], list) else made
    return cbor.encode(parts)


def test_mutations():
    found = fuzz(240, "page")
    assert len(set(found)) > 20


@pytest.mark.slow
def test_more_mutations():
    assert len(set(fuzz(5000, "page, longer"))) > 40


def test_one_verification_of_hostile_shapes():
    """Deep, long and empty inputs end in a verdict."""
    trust = Made().trust.encode()
    compared = Compared()
    shapes = [b"", b"\xa0", b"\x81" * 1000, b"\xbb" + b"\xff" * 8, b"\x5b" + b"\xff" * 8]
    shapes += [
        b"\xa2gversion\x01istatement\x5a\x7f\xff\xff\xff",
        b"\x9a\x00\x01\x00\x00" + bytes(65536),
    ]
    for number, shape in enumerate(shapes):
        compared.add(f"shape {number}", shape, trust)
        compared.add(f"trust {number}", shape, shape)
    assert {reason for _, reason in compared.run()} == {"bundle-format", "usage"}
