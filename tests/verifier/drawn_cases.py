"""Cases that follow from a seed: valid bundles, altered so that many steps are reached."""

from __future__ import annotations

import json

from crypto import cbor
from tests.verifier.bundle_case import (
    DAY,
    KEYS,
    LOG,
    MODEL,
    NONCE,
    NOW,
    STARTED,
    instant,
    sm3,
    trust_text,
)
from tests.verifier.mutations import (
    answer_edited,
    encoded,
    flipped,
    list_edited,
    trust_edited,
    value_edited,
    value_nudged,
)
from tests.verifier.vector_case import Fixed, envelope
from tests.verifier.vectors_signed import ID, LISTED
from tests.verifier.vectors_texts import BODY, DONE, RICH, body, delta
from verifier import transcript
from verifier.errors import MalformedError
from verifier.expectations import Head
from verifier.responses import reduce

SIGNERS = {
    "statement": "attest", "checkpoint": "attest", "admission": "attest", "release": "weights",
    "revocations": "revoke", "cosignature": "witness",
}  # fmt: skip
PARTS = {"releases": "release", "cosignatures": "cosignature"}
PROOFS = ("inclusion", "admission_inclusion", "consistency")
TIMES = (0, STARTED - 300_000, STARTED, NOW, NOW + 1000 * DAY, NOW + 900_000 * DAY, (1 << 53) - 1)


def bases():
    """Return different valid bundles with their trust files and what was answered."""
    plain, full, drawn = Fixed(), Fixed(), Fixed()
    full.set({
        "revocations": LISTED | {-70123: [bytes(32), ID["attest2"]][:1], -70124: [bytes(32)]},
        "cosignatures": ["witness"],
        "release_signers": ["weights", "weights2"],
        "texts": {"transcript": cbor.encode(RICH)},
        "statement": {-70227: "tool_calls"},
        "trust": trust_text(
            line='signers = ["weights", "weights2"]\nthreshold = 2\nminimum_release = 3\n',
            revocations="[revocations]\nminimum_sequence = 5\nmaximum_age_days = 1\n",
        ),
    })  # fmt: skip
    unsent = {-70207: ..., -70223: (1 << 64) - 1, -70224: "server"}
    drawn.set({"earlier": 0, "statement": unsent, "admission": unsent})
    return [(made.objects(), made.trust.encode(), made.root) for made in (plain, full, drawn)]


BASES = bases()
CALLS = [{"function": {"name": "add", "arguments": '{"a":1}'}}, {"function": {"name": ""}}]
MESSAGE = {"content": "Grüße 😀\n", "refusal": "no", "tool_calls": CALLS}
ANSWERS = [
    body([{"message": {"content": "hello"}, "finish_reason": "stop"}]),
    body([
        {"message": MESSAGE, "finish_reason": "tool_calls"},
        {"index": 2, "message": {"content": "second"}, "finish_reason": "tool_calls"},
    ]),
    delta(content="hel") + delta("stop", content="lo") + DONE,
    delta(content="Grüße ", tool_calls=[{"index": 0, "function": {"name": "add"}}])
    + delta("tool_calls", content="x") + delta("tool_calls", 2, content="second") + DONE,
    json.dumps(
        {"data": [{"embedding": [1, 0.1, -0.0]}, {"index": 1, "embedding": "AACAPw=="}]}
    ).encode(),
    cbor.encode(RICH),
]  # fmt: skip


def payload_of(data):
    """Return the payload of a signed object."""
    return cbor.decode(data[1:])[2]


def resigned(parts, draws):
    """Return parts of which one object has another payload, signed again, and the tree with it."""
    name = draws.one_of([name for name in (*SIGNERS, *PARTS) if parts.get(name)])
    kind = PARTS.get(name, name)
    objects = parts[name] if name in PARTS else [parts[name]]
    value = cbor.decode(payload_of(objects[0]))
    edit = value_edited if draws.below(4) == 0 else value_nudged
    for _ in range(draws.below(3)):
        value = edit(value, draws)
    payload = encoded(value, draws) if draws.below(8) == 0 else cbor.encode(value)
    typ = f"windhover/{draws.one_of(SIGNERS) if draws.below(12) == 0 else kind};v=1"
    signer = draws.one_of((*KEYS, "stranger")) if draws.below(4) == 0 else SIGNERS[kind]
    if draws.below(10) == 0:
        header = value_edited({1: -70001, 4: ID["attest"], 16: typ}, draws)
        made = envelope(payload, typ, SIGNERS[kind], header=header if header else b"\xa0")
    else:
        made = envelope(payload, typ, signer)
    return parts | {name: [made, *objects[1:]] if name in PARTS else made}


def revoked(draws):
    """Return the claims of a list that names a key or a model now and then."""
    keys = [ID[draws.one_of(ID)]] if draws.below(2) else []
    models = [MODEL] if draws.below(4) == 0 else []
    issued = NOW // 1000 - draws.one_of((-1, 0, 10, DAY, DAY + 1))
    return {-70121: 1 + draws.below(8), -70122: issued, -70123: keys, -70124: models}


def trusting(draws):
    """Return a trust file that can be read, with roles, windows, lines and logs of its own."""
    keys = {}
    for name, (role, _) in KEYS.items():
        edges = (STARTED // 1000 + draws.below(8) - 1, NOW // 1000 + draws.below(3) - 1)
        word = draws.one_of(("not_before", "not_after"))
        window = f'{word} = "{instant(draws.one_of(edges))}"' if draws.below(4) == 0 else ""
        other = draws.one_of(("attest", "witness", "revoke")) if role != "weights" else role
        keys[name] = (other if draws.below(9) == 0 else role, window)
    for name in ("attest", "attest2", "revoke", "witness", "weights3"):
        if draws.below(12) == 0:
            keys[name] = None
    least = f"minimum_release = {draws.one_of((3, 4))}\n" if draws.below(3) == 0 else ""
    line = f'signers = ["weights", "weights2"]\nthreshold = {1 + draws.below(2)}\n{least}'
    rules = "[revocations]\nminimum_sequence = 5\nmaximum_age_days = 1\n"
    has_list = draws.below(3) == 0 and "revoke" in {role for role, _ in filter(None, keys.values())}
    return trust_text(
        keys=keys,
        line=line,
        revocations=rules if has_list else "",
        logs={"main": sm3(b"")} if draws.below(9) == 0 else None,
        line_name="chat-9b" if draws.below(9) == 0 else "chat-8b",
    )


def grown(draws):
    """Return parts of a bundle made anew with claims altered, so that the log agrees with them."""
    made = Fixed()
    for claims in (made.statement, made.admission):
        edit = draws.one_of((value_edited, value_nudged, value_nudged))
        if draws.below(2):
            key = draws.one_of(claims)
            claims[key] = edit(claims[key], draws)
    if draws.below(2):
        made.checkpoint[-70243] += draws.one_of((-100_000, 50_000, 100_000))
        made.release_signers = [draws.one_of((*KEYS, "stranger")) for _ in range(draws.below(4))]
        made.kept_salts = {draws.one_of(made.texts)}
    if draws.below(2):
        made.revocations = revoked(draws)
    if draws.below(3) == 0:
        name = draws.one_of(made.texts)
        made.texts[name] = flipped(made.texts[name], draws)
    if draws.below(3) == 0:
        entries = value_edited(RICH, draws)
        made.texts["transcript"] = (
            encoded(entries, draws) if draws.below(3) == 0 else cbor.encode(entries)
        )
        made.statement[-70227] = "none"
    made.earlier = draws.below(9)
    return made.objects()


def altered_bundle(parts, draws):
    """Return a bundle's bytes after one alteration of one of its kinds."""
    match draws.below(16):
        case 0:
            return flipped(cbor.encode(parts), draws)
        case 1:
            return encoded(parts, draws)
        case 2:
            return cbor.encode(value_edited(parts, draws))
        case 3:
            name = draws.one_of(PROOFS)
            return cbor.encode(parts | {name: list_edited(parts[name] or [bytes(32)], draws)})
        case 4:
            other = BASES[draws.below(len(BASES))][0]
            return cbor.encode(parts | {(name := draws.one_of(other)): other[name]})
        case 5:
            gone = {draws.one_of(parts) for _ in range(1 + draws.below(3))} - {"version"}
            return cbor.encode({name: part for name, part in parts.items() if name not in gone})
        case 6:
            first, second = draws.one_of(SIGNERS), draws.one_of(SIGNERS)
            if {first, second} <= parts.keys():
                return cbor.encode(parts | {first: parts[second]})
            return cbor.encode(parts | {"inclusion": parts["admission_inclusion"]})
        case 7 | 8 | 9 | 10:
            return cbor.encode(grown(draws))
    return cbor.encode(resigned(parts, draws))


def expectations(root, draws):
    """Return what an auditor might expect: mostly what is so, or near it."""
    found = {"at": NOW if draws.below(3) else draws.one_of(TIMES)}
    for name, values in {
        "signer": (ID["attest"], bytes(32)), "model": (MODEL, sm3(b"")),
        "nonce": (NONCE, bytes(16)),
        "after": (STARTED, STARTED + 1), "before": (STARTED + 5000, 0), "need": (("A0",), ("A2",)),
        "request": (BODY, b"/v1/chat/completions\0" + BODY), "prefix": (True, False),
        "head": (Head(11, root), Head(11, sm3(b"")), Head(8, root)),
    }.items():  # fmt: skip
        if draws.below(9) == 0:
            found[name] = draws.one_of((values[0], draws.one_of(values)))
    if draws.below(8) == 0 and "head" in found:
        found["head_checkpoint"] = head_object(found.pop("head"))
    if draws.below(8) == 0 or "prefix" in found:
        found["response"] = draws.one_of(ANSWERS)
        if draws.below(3):
            found["response"] = answer_edited(found["response"], draws)
    return found


def head_object(head):
    claims = {-70201: "x", -70202: LOG, -70241: head.size, -70242: head.root, -70243: 0}
    payload = cbor.encode(claims | {-70244: bytes(32)})
    return envelope(payload, "windhover/checkpoint;v=1", "witness")


def drawn_case(draws):
    """Return bundle, trust file and expectations, one of them altered."""
    parts, trust, root = draws.one_of(BASES)
    expected = expectations(root, draws)
    match draws.below(9):
        case 0:
            return cbor.encode(parts), trust_edited(trust, draws), expected
        case 1:
            return cbor.encode(parts), trusting(draws).encode(), expected
        case 2 | 3:
            return cbor.encode(grown(draws)), trusting(draws).encode(), expected
        case 4:
            answer = answer_edited(draws.one_of(ANSWERS), draws)
            made = Fixed()
            if draws.below(2):  # with luck it reduces, and then it opens
                made.texts["transcript"] = _transcript_of(answer)
                made.statement[-70227] = "none"
            return made.bundle(), made.trust.encode(), expected | {"response": answer}
    return altered_bundle(parts, draws), trust, expected


def _transcript_of(answer):
    try:
        return transcript.encode(reduce(answer))
    except MalformedError:
        return b"\x80"
