"""Who asks: an id that statements carry, scopes, and what this one may take."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

SCOPES: Final = ("generate", "embeddings", "models", "attestations", "log", "metrics", "status")
"""What a key can be allowed, each the name of a group of routes."""

PRINCIPAL_BYTES: Final = 16
LIMIT_NAMES: Final = (
    "requests_per_minute",
    "prompt_tokens_per_minute",
    "generated_tokens_per_minute",
    "concurrent_requests",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLimits:
    """Limits of one key; None takes the configuration's, 0 sets none."""

    requests_per_minute: int | None = None
    prompt_tokens_per_minute: int | None = None
    generated_tokens_per_minute: int | None = None
    concurrent_requests: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who asks.

    Attributes:
        id: 16 random bytes, the same after a key was replaced by a newer one.
        name: what the operator calls it; leaves the process in lists for the operator alone.
        scopes: those of `SCOPES` that it has.
        shared: whether several people stand behind it, so that no cache may connect its requests.
        key_id: which key was shown.
        limits: what it may take.
    """

    id: bytes
    name: str
    scopes: frozenset[str]
    shared: bool = False
    key_id: str = ""
    limits: KeyLimits = field(default_factory=KeyLimits)
