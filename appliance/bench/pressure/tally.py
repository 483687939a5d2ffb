"""What became of the deeds: counted, with everything kept that must not have happened."""

from __future__ import annotations

import json
import threading
from collections import Counter
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from appliance.bench.pressure.caller import BUSY
from appliance.bench.pressure.deeds import Deed, Key
from appliance.bench.pressure.exchange import Got

ATTESTATION_HEADER: Final = "windhover-attestation"

_DONE: Final = b"[DONE]"
_FINISH_REASONS: Final = frozenset({"stop", "length", "tool_calls"})
_KEPT_FAULTS: Final = 50


@dataclass(slots=True)
class Tally:
    """Counts of all clients. Any thread may add.

    Attributes:
        outcomes: how often a kind ended in a way.
        faults: what must not have happened, the first ones in words.
        num_faults: of all.
        attestations: ids that clients were told, each with the number of the key and whether the
            answer was whole.
        waited_s: seconds for which clients were told to wait.
        first_s: seconds until the first byte of answers that came.
    """

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    num_faults: int = 0
    attestations: dict[str, tuple[int, bool]] = field(default_factory=dict)
    waited_s: int = 0
    first_s: list[float] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def add(self, deed: Deed, got: Got, key: int) -> int | None:
        """Count what a deed has brought; return seconds to wait before it is done again, or None.

        Args:
            deed: what was done.
            got: what came of it.
            key: the number of the key with which it was.
        """
        outcome, fault = judge(deed, got)
        wait_s = got.retry_after_s if outcome.startswith("told to wait") else None
        name = got.headers.get(ATTESTATION_HEADER)
        with self._lock:
            self.outcomes[deed.kind, outcome] += 1
            if fault is not None:
                self.fault(f"{deed.kind}: {fault}")
            if name is not None:
                self.attestations[name] = (key, outcome == "answered")
            if outcome == "answered" and got.first_s is not None:
                self.first_s.append(got.first_s)
            self.waited_s += wait_s or 0
        return wait_s

    def fault(self, words: str) -> None:
        """Note what must not have happened."""
        with self._lock:
            self.num_faults += 1
            if len(self.faults) < _KEPT_FAULTS:
                self.faults.append(words)

    def as_json(self) -> dict[str, Any]:
        """Return the counts, by kind and outcome."""
        kinds: dict[str, dict[str, int]] = {}
        for (kind, outcome), count in sorted(self.outcomes.items()):
            kinds.setdefault(kind, {})[outcome] = count
        return kinds


def judge(deed: Deed, got: Got) -> tuple[str, str | None]:
    """Return how a deed ended, and what was wrong with that; None where nothing was."""
    if got.has_left:
        return "left", None
    if got.status is None or got.failure is not None:
        if deed.kind == "too large" and got.status is None:
            # Whoever sends on after the refusal may lose it to the reset of the connection.
            return "reset", None
        return "broken off", f"{got.failure} after {len(got.body)} bytes, status {got.status}"
    if got.status in BUSY and deed.key is Key.OWN:
        if got.retry_after_s is None:
            return "unexpected", f"status {got.status}, {got.code}, without Retry-After"
        return f"told to wait ({got.status})", None
    if deed.refusal is not None:
        status, code = deed.refusal
        if got.status != status or got.code is None or code not in ("", got.code):
            return "unexpected", f"status {got.status}, {got.code}, in place of {deed.refusal}"
        return f"refused ({status})", None
    if got.status != HTTPStatus.OK:
        return "unexpected", f"status {got.status}, {got.message}"
    fault = _stream_fault(deed, got) if deed.fields.get("stream") else _whole_fault(deed, got)
    return ("answered" if fault is None else "unexpected"), fault


def _whole_fault(deed: Deed, got: Got) -> str | None:
    value = got.value
    try:
        choice = value["choices"][0]
        if value["attestation"]["id"] != got.headers[ATTESTATION_HEADER]:
            return "the header names another attestation than the body"
        usages = [value["usage"]]
        message = choice.get("message", {"content": choice.get("text")})
        calls = [each["function"]["arguments"] for each in message.get("tool_calls") or []]
        content = message["content"]
    except (KeyError, IndexError, TypeError) as error:
        return f"an answer without {error}"
    fault = _finish_fault(deed, choice["finish_reason"], content, calls)
    return fault or _usage_fault(deed, usages)


def _stream_fault(deed: Deed, got: Got) -> str | None:
    *events, last = got.events or [b""]
    if last != _DONE:
        return f"a stream that ends with {last[:80]!r}"
    reasons, contents, usages, announced = [], [], [], []
    arguments: dict[int, str] = {}
    try:
        for event in events:
            chunk = json.loads(event)
            usages += [chunk["usage"]] if chunk.get("usage") else []
            announced += [chunk["attestation"]["id"]] if "attestation" in chunk else []
            for choice in chunk["choices"]:
                delta = choice.get("delta", {"content": choice.get("text")})
                contents.append(delta.get("content") or "")
                for call in delta.get("tool_calls") or []:
                    more = call["function"].get("arguments") or ""
                    arguments[call["index"]] = arguments.get(call["index"], "") + more
                reasons += [choice["finish_reason"]] if choice["finish_reason"] else []
    except (KeyError, TypeError, ValueError) as error:
        return f"a chunk that cannot be read: {error}"
    if announced != [got.headers.get(ATTESTATION_HEADER)]:
        return f"attestations {announced} in a stream"
    if len(usages) != ("stream_options" in deed.fields):
        return f"{len(usages)} usages in a stream"
    if len(reasons) != 1:
        return f"finish reasons {reasons} in a stream"
    fault = _finish_fault(deed, reasons[0], "".join(contents), list(arguments.values()))
    return fault or _usage_fault(deed, usages)


def _finish_fault(deed: Deed, reason: str, content: str | None, calls: list[str]) -> str | None:
    """Return what is wrong with the end of an answer, or with JSON and calls that are whole."""
    if reason not in _FINISH_REASONS:
        return f"finish reason {reason}"
    has_form = "response_format" in deed.fields and "stop" not in deed.fields
    if reason == "stop" and has_form and not _is_object(content):
        return "an answer that should be JSON is none"
    if reason == "tool_calls" and not (calls and all(map(_is_object, calls))):
        return f"calls without arguments: {calls}"
    return None


def _is_object(text: str | None) -> bool:
    try:
        return isinstance(json.loads(text or ""), dict)
    except ValueError:
        return False


def _usage_fault(deed: Deed, usages: list[dict[str, Any]]) -> str | None:
    most = deed.fields["max_tokens"]
    if all(1 <= usage.get("completion_tokens", 0) <= most for usage in usages):
        return None
    return f"more or fewer tokens than the {most} that were asked for: {usages}"
