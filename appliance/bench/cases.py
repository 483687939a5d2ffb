"""What is measured: prefill and decode cases, and the numbers that a series of rounds gives."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from engine.errors import ConfigError

PREFERRED_PREFILL_TOKENS = 512
"""The prompt length that is also measured at depth: the usual batch of both engines."""


@dataclass(frozen=True, slots=True)
class Case:
    """`tokens` positions after `depth` others: in one go (prefill) or one by one (decode)."""

    phase: Literal["prefill", "decode"]
    tokens: int
    depth: int

    @property
    def label(self) -> str:
        """Name for tables, such as `prefill 512 at 2048`."""
        name = "decode" if self.phase == "decode" else f"prefill {self.tokens}"
        return f"{name} at {self.depth}" if self.depth or self.phase == "decode" else name

    @property
    def end(self) -> int:
        """Length of the sequence afterwards."""
        return self.depth + self.tokens


def plan(prefill: Sequence[int], depths: Sequence[int], decode_tokens: int) -> list[Case]:
    """Return the cases: each prompt length at depth 0, one at each other depth, and decode.

    Args:
        prefill: prompt lengths in tokens.
        depths: positions that are already in the cache.
        decode_tokens: decode steps of one measurement.

    Raises:
        ConfigError: a number is out of range, or there is nothing to measure.
    """
    if not prefill or not depths or min(*prefill, decode_tokens) < 1 or min(depths) < 0:
        raise ConfigError("prompt lengths and decode steps are at least 1, depths at least 0")
    deep = min(prefill, key=lambda tokens: abs(tokens - PREFERRED_PREFILL_TOKENS))
    return [
        *(Case("prefill", tokens, 0) for tokens in prefill),
        *(Case("prefill", deep, depth) for depth in depths if depth),
        *(Case("decode", decode_tokens, depth) for depth in depths),
    ]


@dataclass(slots=True)
class Series:
    """One case on one number of threads, measured again in each round: tokens per second."""

    case: Case
    threads: int
    plain: list[float] = field(default_factory=list)
    traced: list[float] = field(default_factory=list)
    rival: list[float] = field(default_factory=list)
    rival_flash_attention: bool | None = None

    @property
    def ratios(self) -> list[float]:
        """Without a trace, relative to the rival's run of the same round."""
        return [ours / theirs for ours, theirs in zip(self.plain, self.rival, strict=False)]

    @property
    def best_ratio(self) -> float:
        """Both engines at their fastest: what others do on the machine matters least to this."""
        return max(self.plain) / max(self.rival)

    @property
    def trace_costs(self) -> list[float]:
        """Share of time that the trace adds in each round; noise can make it negative."""
        return [off / on - 1.0 for off, on in zip(self.plain, self.traced, strict=True)]

    def as_json(self) -> dict[str, object]:
        """Return every number that was measured, and their medians."""
        return {
            "phase": self.case.phase,
            "tokens": self.case.tokens,
            "depth_tokens": self.case.depth,
            "threads": self.threads,
            "tokens_per_s": spread(self.plain),
            "traced_tokens_per_s": spread(self.traced),
            "trace_cost": spread(self.trace_costs),
            "llama_bench_tokens_per_s": spread(self.rival) if self.rival else None,
            "llama_bench_flash_attention": self.rival_flash_attention,
            "ratio": spread(self.ratios) if self.rival else None,
            "ratio_of_best": _rounded(self.best_ratio) if self.rival else None,
        }


def spread(values: Sequence[float]) -> dict[str, object]:
    """Return median, least, largest and all values, rounded to six significant digits."""
    digits = [_rounded(value) for value in values]
    return {
        "median": _rounded(statistics.median(values)),
        "min": min(digits),
        "max": max(digits),
        "rounds": digits,
    }


def _rounded(value: float) -> float:
    return round(value, 5 - math.floor(math.log10(abs(value)))) if value else 0.0
