"""Real objects for a log: an admission, and the statement that closes it."""

from __future__ import annotations

from dataclasses import replace

from crypto.admission import ADMISSION_TYPE, Admission
from crypto.commitment import NAMES
from crypto.cose import sign1
from crypto.evidence import PROFILE_GENERATE
from crypto.statement import STATEMENT_TYPE, Statement
from tests.appliance.log.case import SIGNER, START_MS

_SHARED = {
    "issuer": "tests", "log_id": bytes(32), "sequence": 1, "nonce": None,
    "profile": PROFILE_GENERATE, "model_digest": b"m" * 32, "principal": b"p" * 16,
    "parameters": {}, "seed": 1, "seed_source": "request",
}  # fmt: skip
ADMISSION = Admission(
    **_SHARED, admitted_ms=START_MS, request_id=b"r" * 16, request_commitment=b"c" * 32
)
STATEMENT = Statement(
    **_SHARED, admission=0, started_ms=START_MS, ended_ms=START_MS, outcome="answered", line=None,
    release=None, release_payload=None, load_verdict="unsigned", mode="dev",
    software_digest=bytes(32), numerics="wh1", kernel_path="reference", residency="full",
    write_xor_execute="open", tokenizer_root=bytes(32), template_root=None,
    commitments=dict.fromkeys(NAMES, bytes(32)), prompt_tokens=1, output_tokens=1,
    finish_reason="stop", trace_shape=(1, 1, 1), trust_digest=bytes(32), revocation_sequence=0,
    earlier_size=0, earlier_root=bytes(32), coverage=31,
)  # fmt: skip


def admission(**changes):
    """Return what makes an admission."""

    def make(position):
        said = {"log_id": position.log_id, "sequence": position.index} | changes
        payload = replace(ADMISSION, **said).encode()
        return sign1(payload, typ=ADMISSION_TYPE, signer=SIGNER)

    return make


def statement(index, **changes):
    """Return what makes the statement that closes admission `index`."""

    def make(position):
        said = {
            "log_id": position.log_id, "sequence": position.index, "admission": index,
            "earlier_size": position.earlier_size, "earlier_root": position.earlier_root,
        }  # fmt: skip
        payload = replace(STATEMENT, **(said | changes)).encode()
        return sign1(payload, typ=STATEMENT_TYPE, signer=SIGNER)

    return make
