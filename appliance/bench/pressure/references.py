"""Requests whose answers must be the same alone and under load, to the last bit of the trace."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, Final

from appliance.api.parsed import CHAT_PATH, COMPLETIONS_PATH
from appliance.bench.pressure.asking import SCHEMA, SYSTEM
from appliance.bench.pressure.caller import Caller
from appliance.bundle import decode_bundle
from engine.errors import ConfigError

_QUESTION: Final = {"role": "user", "content": "Say what a kestrel eats, and when it hunts."}
_FORM: Final = {"name": "found", "strict": True, "schema": SCHEMA}

REFERENCES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "chat, greedy": (CHAT_PATH, {"messages": [_QUESTION], "temperature": 0}),
    "chat, seeded": (
        CHAT_PATH,
        {"messages": [_QUESTION], "temperature": 1, "top_p": 0.95, "seed": 20261130},
    ),
    "chat, JSON": (
        CHAT_PATH,
        {
            "messages": [_QUESTION],
            "temperature": 0.8,
            "seed": 7,
            "response_format": {"type": "json_schema", "json_schema": _FORM},
        },
    ),
    "text, greedy": (COMPLETIONS_PATH, {"prompt": "The wind over the hill", "temperature": 0}),
    "text, penalties": (
        COMPLETIONS_PATH,
        {
            "prompt": "One, two, three,",
            "temperature": 0.9,
            "seed": 3,
            "frequency_penalty": 0.7,
            "logprobs": 5,
            "stop": ["ninety-nine"],
        },
    ),
    "chat, long prompt": (
        CHAT_PATH,
        {"messages": [{"role": "system", "content": SYSTEM}, _QUESTION], "temperature": 0},
    ),
}
"""Path and fields by name; model and length are added. The last has a longer prompt besides."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """What an answer was made of: the bytes of its token ids, and the root of its trace."""

    output_ids: bytes
    trace_root: bytes


@dataclass(frozen=True, slots=True)
class References:
    """Asks the requests, one after the other."""

    caller: Caller
    model: str
    context_tokens: int
    max_tokens: int

    def ask(self, name: str, cache_key: str | None = None) -> tuple[Drawn, str]:
        """Return what an answer was made of, by its bundle, and the id of its attestation.

        Args:
            name: one of `REFERENCES`.
            cache_key: separates a chat from prompts that are in the prefix cache.

        Raises:
            ConfigError: it was not answered, or not attested.
        """
        path, fields = self.request(name, cache_key)
        got = self.caller.ask(path, fields)
        attestation = got.value["attestation"]["id"]
        found = self.caller.ask(f"/v1/attestations/{attestation}").value
        if found["bundle"] is None:
            raise ConfigError("a bundle was gone before it could be fetched")
        texts = decode_bundle(base64.b64decode(found["bundle"])).texts
        drawn = Drawn(texts["output_ids"], texts["trace"])
        if not drawn.output_ids or not drawn.trace_root:
            raise ConfigError("an answer has no token ids or no trace")
        return drawn, attestation

    def request(self, name: str, cache_key: str | None = None) -> tuple[str, dict[str, Any]]:
        """Return path and fields of a request; arguments as `ask`."""
        path, fields = REFERENCES[name]
        fields = fields | {"model": self.model, "max_tokens": self.max_tokens}
        if cache_key is not None and path == CHAT_PATH:
            fields["prompt_cache_key"] = cache_key
        if name == "chat, long prompt":
            system, question = fields["messages"]
            text = system["content"] + " Reed and stone." * (self.context_tokens // 60)
            fields["messages"] = [system | {"content": text[: self.context_tokens // 3]}, question]
        return path, fields
