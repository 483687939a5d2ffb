"""A bundle that passes, made of parts that a test can change one by one."""

from __future__ import annotations

import base64
import copy
import hashlib
from functools import cache

from crypto import cbor
from crypto.cose import sign1
from crypto.merkle import consistency_proof, inclusion_proof, leaf_hash, root
from crypto.signer import SoftwareSigner
from crypto.sm2 import private_key
from tests import altered
from verifier.expectations import Expectations
from verifier.verify import verify

NOW = 1_800_000_000_000
STARTED = NOW - 60_000
SIZE = 11
SEQUENCE, ADMISSION, EARLIER = 8, 5, 6
NONCE = bytes(range(32))
MODEL = hashlib.new("sm3", b"model").digest()
LOG = bytes(range(100, 132))
TYPES = ("statement", "admission", "checkpoint", "cosignature", "release", "revocations")
DAY = 86_400


def sm3(*parts):
    return hashlib.new("sm3", b"".join(parts)).digest()


@cache
def signer(name):
    """Return the signer of a name: its number is the hash of the name."""
    return SoftwareSigner(private_key(sm3(b"windhover verifier test ", name.encode())))


@cache
def signed(payload, kind, name):
    """Sign bytes as an object of a kind."""
    return sign1(payload, typ=f"windhover/{kind};v=1", signer=signer(name))


def sign(kind, claims, name):
    """Sign claims; bytes are taken as they are."""
    payload = claims if isinstance(claims, bytes) else cbor.encode(claims)
    return signed(payload, kind, name)


def commit(name, salt, content):
    length = len(content).to_bytes(8, "little")
    return sm3(b"windhover/commitment;v=1\0", name.encode(), b"\0", salt, length, content)


def instant(seconds):
    import datetime

    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def key_table(name, role, extra=""):
    spki = base64.b64encode(signer(name).public_key.spki_der()).decode()
    return f'[keys.{name}]\nrole = "{role}"\npublic_key = "{spki}"\n{extra}\n'


KEYS = {
    "attest": ("attest", ""),
    "attest2": ("attest", ""),
    "weights": ("weights", ""),
    "weights2": ("weights", ""),
    "weights3": ("weights", ""),
    "revoke": ("revoke", ""),
    "witness": ("witness", ""),
}


def trust_text(keys=None, line=None, revocations="", logs=None, line_name="chat-8b"):
    """Return a trust file; `keys` replaces (role, further lines) by name, None takes one out."""
    merged = KEYS | (keys or {})
    text = "version = 1\n"
    text += "".join(key_table(name, *entry) for name, entry in merged.items() if entry)
    line = 'signers = ["weights", "weights2"]\nthreshold = 1\n' if line is None else line
    text += f"[lines.{line_name}]\n{line}"
    text += revocations
    text += "".join(
        f'[logs.{name}]\nid = "{log_id.hex()}"\n'
        for name, log_id in ({"main": LOG} if logs is None else logs).items()
    )
    return text


class Made:
    """What a valid bundle is made of; change a part, then ask for `bundle()`."""

    def __init__(self):
        self.texts = {
            "request": b'/v1/chat/completions\0{"messages":[]}',
            "prompt_ids": b"".join(i.to_bytes(4, "little") for i in (1, 2, 3)),
            "transcript": cbor.encode([[1, 0, 0, b"hello"], [6, 0, 0, b"stop"]]),
            "output_ids": b"".join(i.to_bytes(4, "little") for i in (7, 8)),
            "trace": sm3(b"trace"),
        }
        self.salts = {name: sm3(b"salt", name.encode()) for name in self.texts}
        self.release = {
            -70101: MODEL, -70102: "chat-8b", -70103: 3, -70104: NOW // 1000 - DAY,
            -70105: NOW // 1000 + DAY, -70106: [0, 1, 0], -70107: [1, 2],
        }  # fmt: skip
        self.release_signers = ["weights"]
        self.revocations = None
        self.trust = trust_text()
        self.signers = {"statement": "attest", "admission": "attest", "checkpoint": "attest"}
        self.kinds = {kind: kind for kind in TYPES}
        self.admission = {
            -70201: "box-1", -70202: LOG, -70203: ADMISSION, -70205: STARTED - 10,
            -70207: NONCE, -70208: "windhover/generate;v=1", -70101: MODEL, -70219: bytes(16),
            -70222: {"temperature_millionths": 700_000}, -70224: "nonce", -70233: bytes(16),
            -70223: int.from_bytes(sm3(b"windhover/seed;v=1\0", NONCE)[:8], "little"),
        }  # fmt: skip
        self.statement = {key: self.admission[key] for key in self.admission if key != -70233} | {
            -70203: SEQUENCE, -70204: ADMISSION, -70205: STARTED, -70206: STARTED + 5000,
            -70209: "answered", -70102: "chat-8b", -70103: 3, -70212: "signed",
            -70213: "production", -70214: bytes(32), -70215: "wh1", -70216: "x86-64-avx2",
            -70217: "full", -70218: "locked", -70220: bytes(32), -70221: bytes(32),
            -70226: [3, 2], -70227: "stop", -70228: [4, 30, 576], -70229: bytes(32),
            -70230: 0, -70232: 31,
        }  # fmt: skip
        self.checkpoint = {
            -70201: "box-1", -70202: LOG, -70241: SIZE, -70243: STARTED + 6000, -70244: bytes(32),
        }  # fmt: skip
        self.cosignatures = []
        self.parts = {}  # replaces parts of the bundle; None takes one out
        self.kept_salts = set()  # those that are not handed on
        self.earlier = EARLIER
        self.request_commitment = None
        self.flip = set()  # kinds whose signature is altered

    def copy(self):
        return copy.deepcopy(self)

    def make(self, kind, claims, name):
        data = sign(self.kinds[kind], claims, name)
        return altered.last_byte(data) if kind in self.flip else data

    def objects(self):
        """Return the parts of the bundle."""
        commitments = {n: commit(n, self.salts[n], self.texts[n]) for n in self.texts}
        payload = self.release if isinstance(self.release, bytes) else cbor.encode(self.release)
        admission = dict(self.admission)
        admission[-70234] = self.request_commitment or commitments["request"]
        admission_object = self.make("admission", admission, self.signers["admission"])
        leaves = [leaf_hash(b"entry %d" % i) for i in range(SIZE)]
        leaves[ADMISSION] = leaf_hash(admission_object)
        statement = dict(self.statement)
        statement.setdefault(-70225, commitments)
        statement.setdefault(-70231, [self.earlier, root(leaves[: self.earlier])])
        if -70102 in statement:
            statement.setdefault(-70211, sm3(b"windhover/release-payload;v=1\0", payload))
        statement_object = self.make("statement", statement, self.signers["statement"])
        leaves[SEQUENCE] = leaf_hash(statement_object)
        checkpoint = {-70242: root(leaves)} | self.checkpoint
        self.root = checkpoint[-70242]
        parts = {
            "version": 1,
            "statement": statement_object,
            "checkpoint": self.make("checkpoint", checkpoint, self.signers["checkpoint"]),
            "inclusion": inclusion_proof(leaves, SEQUENCE),
            "admission": admission_object,
            "admission_inclusion": inclusion_proof(leaves, ADMISSION),
            "consistency": consistency_proof(leaves, self.earlier)
            if 0 < self.earlier < SIZE
            else [],
            "releases": [self.make("release", payload, name) for name in self.release_signers],
            "salts": {n: s for n, s in self.salts.items() if n not in self.kept_salts},
        } | {("trace_root" if n == "trace" else n): text for n, text in self.texts.items()}
        if self.revocations is not None:
            parts["revocations"] = self.make("revocations", self.revocations, "revoke")
        if self.cosignatures:
            head = {key: checkpoint[key] for key in (-70202, -70241, -70242)} | {-70243: NOW - 1}
            parts["cosignatures"] = [
                self.make("cosignature", head, name) for name in self.cosignatures
            ]
        parts |= self.parts
        return {name: part for name, part in parts.items() if part is not None}

    def bundle(self):
        return cbor.encode(self.objects())

    def verify(self, **expected):
        expected.setdefault("at", NOW)
        return verify(self.bundle(), self.trust.encode(), Expectations(**expected))
