"""Everything that answers, around a tiny model, a real log and a real key; no network."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from appliance.api.parsed import CHAT_PATH, COMPLETIONS_PATH
from appliance.attestation import Attestor
from appliance.audit.claimed import read_claimed
from appliance.audit.findings import Findings, Result
from appliance.audit.text_steps import check_model, check_text
from appliance.bundle import Bundle, decode_bundle
from appliance.log.log import Log
from appliance.service.access_log import AccessRecord
from appliance.service.answering import Answering, AnswerLimits, Running
from appliance.service.asked import Asked
from appliance.service.attestations import AttestationStore
from appliance.service.limits import RateLimiter
from appliance.service.principals import SCOPES, Principal
from appliance.service.settings import LimitSettings
from appliance.service.stream import AnswerStream, whole_answer
from appliance.service.worker import EngineWorker
from crypto.cose import decode_sign1
from crypto.evidence import MAX_OBJECT_BYTES
from crypto.statement import Statement, decode_statement
from engine.model import Model
from engine.scheduler import Scheduler
from verifier.expectations import Expectations
from verifier.report import Report
from verifier.verify import verify

ALICE = Principal(id=bytes(15) + b"a", name="alice", scopes=frozenset(SCOPES))
BOB = Principal(id=bytes(15) + b"b", name="bob", scopes=frozenset(SCOPES))
QUESTION = [{"role": "user", "content": "Why is the sky blue?"}]


@dataclass
class Desk:
    """What answers; `stop` ends it."""

    answering: Answering
    worker: EngineWorker
    store: AttestationStore
    rates: RateLimiter
    log: Log
    trust: bytes
    failures: list[str] = field(default_factory=list)

    def begin(
        self,
        *,
        principal: Principal = ALICE,
        path: str = CHAT_PATH,
        nonce: bytes | None = None,
        record: AccessRecord | None = None,
        **fields: Any,
    ) -> Running:
        """Ask the tiny model."""
        options: dict[str, Any] = {"model": "tiny", "max_tokens": 12, "seed": 11}
        if path == COMPLETIONS_PATH:
            options["prompt"] = "The sky is"
        else:
            options["messages"] = QUESTION
        body = json.dumps(options | fields).encode()
        asked = Asked(path=path, body=body, principal=principal, nonce=nonce, record=record)
        return self.answering.begin(asked)

    def whole(self, **fields: Any) -> dict[str, Any]:
        """Return an answer in one piece."""
        return whole_answer(self.begin(**fields), lambda: False)

    def stream(
        self, *, is_gone: Callable[[], bool] = lambda: False, ping_s: float = 5, **fields: Any
    ) -> AnswerStream:
        """Return the stream of an answer."""
        return AnswerStream(self.begin(stream=True, **fields), ping_s=ping_s, is_gone=is_gone)

    def bundle(self, name: str, principal: Principal = ALICE) -> Bundle:
        """Return the bundle of an attestation."""
        found = self.store.find(name, principal.id)
        assert found is not None
        assert found.bundle is not None
        return decode_bundle(found.bundle)

    def verified(self, name: str, **expected: Any) -> tuple[Report, Statement]:
        """Verify a bundle as an auditor does; return the report and what the statement says."""
        bundle = self.bundle(name)
        report = verify(bundle.encode(), self.trust, Expectations(**expected))
        payload = decode_sign1(bundle.statement, max_bytes=MAX_OBJECT_BYTES).payload
        return report, decode_statement(payload)

    def stop(self) -> None:
        """End the threads."""
        self.worker.stop()
        self.answering.stop()


def desk_of(
    model: Model,
    log: Log,
    attestor: Attestor,
    signer: Any,
    *,
    max_running: int = 4,
    max_queued: int = 4,
    limits: AnswerLimits = AnswerLimits(16, 300, 600),  # noqa: B008  (frozen)
    **rates: Any,
) -> Desk:
    """Return a desk; its model's engine is its own while it is there."""
    key = base64.b64encode(signer.public_key.spki_der()).decode()
    trust = (
        f'version = 1\n[keys.a]\nrole = "attest"\npublic_key = "{key}"\n'
        f'[logs.a]\nid = "{log.log_id.hex()}"\n'
    )
    failures: list[str] = []
    worker = EngineWorker(
        Scheduler(model.engine, max_running=max_running),
        model.tokenizer,
        max_running=max_running,
        max_queued=max_queued,
        on_failure=lambda error: failures.append("engine"),
    )
    store = AttestationStore(log, max_bytes=1 << 20, ttl_s=60)
    limiter = RateLimiter(LimitSettings(**rates))
    answering = Answering(
        model=model,
        model_name="tiny",
        log=log,
        attestor=attestor,
        worker=worker,
        attestations=store,
        rates=limiter,
        limits=limits,
        on_failure=lambda code, message: failures.append(code),
    )
    return Desk(answering, worker, store, limiter, log, trust.encode(), failures)


def audit(bundle: bytes, model: Model) -> dict[str, Result]:
    """Return what an audit of the text says, by the names of its steps."""
    findings, claimed = Findings(), read_claimed(bundle)
    check_model(findings, claimed, model)
    check_text(findings, claimed, model)
    return {step.name: step.result for step in findings}


def chunks_of(data: bytes) -> list[dict[str, Any]]:
    """Return the objects of a stream, without its comments and its end."""
    events = [line for line in data.split(b"\n\n") if line.startswith(b"data: ")]
    return [json.loads(each[6:]) for each in events if each != b"data: [DONE]"]


def text_of(chunks: list[dict[str, Any]]) -> str:
    """Return the text that chunks of a chat bring."""
    return "".join(
        choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"]
    )
