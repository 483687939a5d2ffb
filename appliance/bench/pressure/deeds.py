"""What clients do: drawn at random from a seed, so that a run can be repeated."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

import numpy as np

from appliance.api.parsed import CHAT_PATH
from appliance.bench.pressure.asking import Asking
from appliance.bench.pressure.exchange import Leave, Manner


class Key(Enum):
    """With which key a client asks."""

    OWN = "its own"
    WRONG = "one that does not exist"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Deed:
    """One thing that a client does.

    Attributes:
        kind: one of `KINDS`.
        path: where it asks.
        body: what it sends; None: it sends GET.
        fields: what the body says; empty where it says nothing readable.
        manner: how it behaves.
        key: with which key.
        nonce: hexadecimal digits, None without one.
        refusal: status and code that must be answered; None: the request is good.
    """

    kind: str
    path: str = CHAT_PATH
    body: bytes | None = None
    fields: dict[str, Any] = field(default_factory=dict)
    manner: Manner = field(default_factory=Manner)
    key: Key = Key.OWN
    nonce: str | None = None
    refusal: tuple[int, str] | None = None


KINDS: Final = {
    "whole": 17,
    "stream": 21,
    "leaves at once": 5,
    "leaves waiting": 8,
    "leaves after events": 10,
    "leaves in the body": 4,
    "reads slowly": 6,
    "writes slowly": 5,
    "too large": 3,
    "broken JSON": 4,
    "wrong key": 3,
    "no key": 2,
    "one token too many": 4,
    "unsupported": 3,
    "other's attestation": 5,
}
"""Every kind, and how often it comes of a hundred."""

_BROKEN: Final = (
    b"",
    b"{",
    b'{"model": NaN}',
    b'{"a": 1, "a": 2}',
    b"\xff\xfe{}",
    b'"\\ud83d"',
    b"[1]",
)
_UNSUPPORTED: Final[tuple[dict[str, Any], ...]] = (
    {"n": 2},
    {"logit_biases": {}},
    {"store": True},
    {"functions": [{"name": "f"}]},
)


@dataclass(frozen=True, slots=True)
class Facts:
    """What a client has to know of the service.

    Attributes:
        model: its name.
        context_tokens: of it.
        body_bytes: longest body.
        max_tokens: longest answer that is asked for.
        probe: a request body, and how many tokens its prompt has.
    """

    model: str
    context_tokens: int
    body_bytes: int
    max_tokens: int
    probe: tuple[dict[str, Any], int]


class Deeds:
    """The deeds of one client, in their order."""

    def __init__(self, facts: Facts, seed: int, client: int) -> None:
        """Begin; the same seed and client give the same deeds."""
        self._facts = facts
        self._draw = np.random.default_rng([seed, client])
        self._asking = Asking(facts.model, facts.context_tokens, facts.max_tokens, self._draw)
        self._kinds = list(KINDS)
        weights = np.array(list(KINDS.values()), np.float64)
        self._shares = weights / weights.sum()

    def next(self) -> Deed:
        """Return the next deed."""
        kind = self._kinds[int(self._draw.choice(len(self._kinds), p=self._shares))]
        if kind == "other's attestation":
            index = int(self._draw.integers(1, 1 << 20))
            name = f"att-{index}-{int(self._draw.integers(1 << 32)):08x}"
            return Deed(kind, f"/v1/attestations/{name}", refusal=(404, "not_found"))
        if kind == "broken JSON":
            body = _BROKEN[int(self._draw.integers(len(_BROKEN)))]
            return Deed(kind, body=body, refusal=(400, ""))
        if kind == "one token too many":
            return self._too_long(kind)
        is_stream = {"whole": False, "stream": True, "reads slowly": True}.get(kind)
        if kind == "leaves after events":
            is_stream = True
        path, fields = self._asking.request(is_stream=is_stream, is_long=kind == "reads slowly")
        if kind == "unsupported":
            fields |= _UNSUPPORTED[int(self._draw.integers(len(_UNSUPPORTED)))]
            return Deed(kind, path, _bytes(fields), fields, refusal=(400, "unsupported_parameter"))
        if kind == "too large":
            body = _bytes(fields) + b" " * self._facts.body_bytes
            return Deed(kind, path, body, fields, refusal=(413, "request_too_large"))
        refusal = (401, "invalid_api_key") if kind in ("wrong key", "no key") else None
        key = {"wrong key": Key.WRONG, "no key": Key.NONE}.get(kind, Key.OWN)
        nonce = self._draw.bytes(16).hex() if self._draw.random() < 0.3 else None
        manner = self._manner(kind)
        return Deed(kind, path, _bytes(fields), fields, manner, key, nonce, refusal)

    def _manner(self, kind: str) -> Manner:
        draw = self._draw
        is_abrupt = bool(draw.random() < 0.5)
        match kind:
            case "leaves at once":
                return Manner(Leave.AFTER_BODY, float(draw.uniform(0, 0.1)), is_abrupt)
            case "leaves waiting":
                return Manner(Leave.AFTER_BODY, float(draw.uniform(0.2, 5)), is_abrupt)
            case "leaves after events":
                return Manner(Leave.AFTER_EVENTS, int(draw.integers(0, 12)), is_abrupt)
            case "leaves in the body":
                return Manner(Leave.IN_BODY, is_abrupt=is_abrupt)
            case "reads slowly":
                rate = int(draw.integers(4, 200))
                return Manner(read_s=float(draw.uniform(4, 20)), read_bytes=rate)
            case "writes slowly":
                return Manner(send_s=float(draw.uniform(1, 8)))
            case _:
                return Manner()

    def _too_long(self, kind: str) -> Deed:
        """Ask for one token more than prompt and answer may have together."""
        fields, prompt_tokens = self._facts.probe
        one_more = self._facts.context_tokens + 1 - prompt_tokens
        fields = fields | {"max_tokens": one_more, "stream": bool(self._draw.random() < 0.5)}
        return Deed(
            kind, body=_bytes(fields), fields=fields, refusal=(400, "context_length_exceeded")
        )


def _bytes(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields).encode("utf-8")
