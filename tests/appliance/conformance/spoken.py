"""Answers as they are on the wire, and what their bundles open."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from appliance.api.parsed import CHAT_PATH
from appliance.bundle import decode_bundle
from tests.appliance.service.live import QUESTION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.appliance.service.live import Live

SAME = ("prompt_ids", "output_ids", "transcript", "trace")
"""What two answers to the same request have in common, as their bundles open it."""


@dataclass
class Spoken:
    """One answer: its pieces, and what stands at its end."""

    pieces: list[str]
    finish_reason: str
    usage: dict[str, Any] | None
    attestation: str

    @property
    def text(self) -> str:
        """The whole of it."""
        return "".join(self.pieces)


def speak(live: Live, path: str = CHAT_PATH, *, stream: bool = False, **fields: Any) -> Spoken:
    """Ask on the wire, and read the answer strictly: UTF-8, one object in each event."""
    asked: dict[str, Any] = {"stream": True} if stream else {}
    asked |= {"messages": QUESTION} if path == CHAT_PATH else {"prompt": "The sky"}
    response = live.post(path, **(asked | fields))
    assert response.status_code == 200, response.text
    if not stream:
        value = response.json()
        (choice,) = value["choices"]
        text = choice["message"]["content"] if path == CHAT_PATH else choice["text"]
        return Spoken([text], choice["finish_reason"], value["usage"], value["attestation"]["id"])
    return _streamed(response)


def _streamed(response: httpx.Response) -> Spoken:
    *events, done, nothing = response.content.decode("utf-8", "strict").split("\n\n")
    assert (done, nothing) == ("data: [DONE]", "")
    pieces, finished, usage = [], [], None
    for event in events:
        chunk = json.loads(event.removeprefix("data: "))
        usage = chunk.get("usage") or usage
        for choice in chunk["choices"]:
            pieces.append(choice["delta"].get("content") or "" if "delta" in choice else
                          choice["text"])  # fmt: skip
            if choice["finish_reason"] is not None:
                finished.append((choice["finish_reason"], chunk["attestation"]["id"]))
    ((finish_reason, attestation),) = finished
    assert attestation == response.headers["windhover-attestation"]
    return Spoken(pieces, finish_reason, usage, attestation)


def opened(live: Live, attestation: str) -> Mapping[str, bytes | None]:
    """Return the texts that a bundle opens."""
    texts = decode_bundle(live.bundle(attestation)).texts
    return {name: texts[name] for name in SAME}


def output_ids(live: Live, attestation: str) -> list[int]:
    """Return the attested ids of an answer."""
    data = opened(live, attestation)["output_ids"]
    assert data is not None
    return [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)]
