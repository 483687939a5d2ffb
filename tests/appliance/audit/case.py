"""Attested answers of small models, honest or not, and a trust file for their log."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from appliance.api.answered import finish_reason, parts_of
from appliance.api.parse import parse_request
from appliance.api.parsed import Message
from appliance.api.prompt import prompt_ids
from appliance.api.write import write_request
from appliance.attestation import Answer, Attestor, Order
from appliance.bundle import Bundle
from crypto.transcript import answer_entries, build
from engine.generate import Generation, generate
from engine.model import Model
from engine.sequence import Request

QUESTION = [{"role": "user", "content": "Why is the sky blue?"}]
MAX_TOKENS = 12


def trust_for(signer: Any, log: Any) -> bytes:
    """Return a trust file that names key and log."""
    key = base64.b64encode(signer.public_key.spki_der()).decode()
    text = (
        f'version = 1\n[keys.a]\nrole = "attest"\npublic_key = "{key}"\n'
        f'[logs.a]\nid = "{log.log_id.hex()}"\n'
    )
    return text.encode()


@dataclass(frozen=True)
class Lie:
    """How an appliance deviates from what it says; by default not at all.

    model: computes in place of the attested one. messages: are answered in place of the request's.
    seed: is used in place of the stated one. change: alters what was generated before it is closed.
    order: alters what is admitted.
    """

    model: Model | None = None
    messages: list[dict[str, str]] | None = None
    seed: int | None = None
    change: Callable[[Answer], Answer] = lambda answer: answer
    order: Callable[[Order], Order] = lambda order: order


def attested(
    attestor: Attestor,
    model: Model,
    lie: Lie | None = None,
    *,
    nonce: bytes | None = None,
    **options: Any,
) -> tuple[Bundle, Generation]:
    """Let a model answer, and return bundle and answer."""
    lie = lie or Lie()
    settings = {"max_tokens": MAX_TOKENS, "seed": 11, "temperature": "0.9"} | options
    max_tokens = int(settings["max_tokens"])
    path, body = write_request(model="tiny", messages=QUESTION, options=settings)
    parsed = parse_request(path, body)
    asked = parsed
    if lie.messages is not None:
        asked = replace(parsed, messages=tuple(Message(**message) for message in lie.messages))
    now_ms = attestor.now_ms()
    order = Order(
        path=path,
        body=body,
        prompt_ids=prompt_ids(model, asked, now_unix_s=now_ms // 1000),
        parameters=parsed.parameters(max_tokens),
        admitted_ms=now_ms,
        seed=parsed.seed,
        nonce=nonce,
    )
    admitted = attestor.admit(lie.order(order))
    seed = admitted.seed if lie.seed is None else lie.seed
    request = Request(
        order.prompt_ids,
        max_tokens,
        replace(parsed.sampling, seed=seed),
        model.tokenizer_config.eos_ids,
        grammar=None if parsed.grammar is None else model.grammars.compile(parsed.grammar),
    )
    generation = generate(lie.model or model, request, stops=parsed.stops)
    parts = parts_of(generation.text, parsed.grammar)
    reason = finish_reason(generation.finish_reason.value, parts)
    entries = answer_entries(content=parts.content, tool_calls=parts.calls, finish_reason=reason)
    answer = Answer(
        outcome="answered",
        finish_reason=reason,
        transcript=build([entries]),
        output_ids=generation.token_ids,
        trace_root=generation.trace_root,
    )
    return attestor.close(admitted, lie.change(answer)), generation
