"""Tokens per second over HTTP: one stream and several, of this service and of a rival, by turns."""

from __future__ import annotations

import http.client
import json
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from appliance.bench.machine import load_average, machine_facts
from engine.errors import ConfigError

_PATH: Final = "/v1/chat/completions"
_TIMEOUT_S: Final = 600
_SUBJECT: Final = "Write a long story about a bird of prey, part {}."

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Target:
    """A server with an interface in OpenAI's shapes; `key` is None where it asks for none."""

    url: str
    model: str
    key: str | None = None


@dataclass(frozen=True, slots=True)
class ServedPlan:
    """What to measure: `streams` answers of `tokens` each; ids in `ending` never end one."""

    streams: int = 8
    tokens: int = 128
    rounds: int = 5
    ending: tuple[int, ...] = (0, 2)


@dataclass(slots=True)
class ServedResults:
    """Tokens per second of every round, by server and number of streams.

    `added` is the share of a lone stream's time in which the engine was not at work, by round.
    """

    plan: ServedPlan
    machine: dict[str, object] = field(default_factory=machine_facts)
    load_before: float = field(default_factory=load_average)
    rates: dict[str, dict[int, list[float]]] = field(default_factory=dict)
    added: list[float] = field(default_factory=list)

    @property
    def gain(self) -> float:
        """All streams' rate over that of one, of this service: median of the rounds' ratios."""
        ours = self.rates["windhover"]
        return _ratio(ours[self.plan.streams], ours[1])

    def over_rival(self, streams: int) -> float | None:
        """Return this service's rate over the rival's, None without one."""
        if "rival" not in self.rates:
            return None
        return _ratio(self.rates["windhover"][streams], self.rates["rival"][streams])

    def as_json(self) -> dict[str, object]:
        """Return every single measurement."""
        return {
            "plan": {
                "streams": self.plan.streams,
                "tokens": self.plan.tokens,
                "rounds": self.plan.rounds,
            },
            "machine": self.machine,
            "load_before": self.load_before,
            "tokens_per_s": self.rates,
            "gain": self.gain,
            "over_rival": {n: self.over_rival(n) for n in (1, self.plan.streams)},
            "added_share": self.added,
        }


def measure_served(
    ours: Target, rival: Target | None, plan: ServedPlan, progress: Progress
) -> ServedResults:
    """Measure both servers by turns, in the opposite order every second round.

    Raises:
        ConfigError: a server gave no complete answer.
        OSError: a server is not there.
    """
    results = ServedResults(plan)
    targets = {"windhover": ours} | ({} if rival is None else {"rival": rival})
    results.rates = {name: {1: [], plan.streams: []} for name in targets}
    for name, target in targets.items():
        _together(target, 1, plan, f"warming {name}")
    for round_number in range(plan.rounds):
        names = list(targets)[:: 1 if round_number % 2 == 0 else -1]
        for streams in (1, plan.streams):
            for name in names:
                label = f"{round_number}"
                before = _engine_seconds(ours) if name == "windhover" else None
                started_s = time.perf_counter()
                tokens = _together(targets[name], streams, plan, label)
                seconds = time.perf_counter() - started_s
                results.rates[name][streams].append(tokens / seconds)
                if before is not None and streams == 1:
                    busy = (_engine_seconds(ours) or 0.0) - before
                    results.added.append(max(0.0, 1 - busy / seconds))
        progress(round_number + 1, plan.rounds)
    return results


def _ratio(ours: list[float], others: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(ours, others, strict=True))


def _together(target: Target, streams: int, plan: ServedPlan, label: str) -> int:
    """Let so many clients ask at once; return how many tokens they were given."""
    counts: list[int] = []
    failures: list[BaseException] = []

    def ask(number: int) -> None:
        try:
            counts.append(_ask(target, plan, _SUBJECT.format(f"{label}, {number}")))
        except (OSError, ValueError, http.client.HTTPException, ConfigError) as error:
            failures.append(error)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(streams)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise ConfigError(f"{target.url}: {type(failures[0]).__name__}: {failures[0]}")
    return sum(counts)


def _connection(target: Target) -> http.client.HTTPConnection:
    parts = urlsplit(target.url)
    if parts.scheme != "http" or parts.hostname is None:
        raise ConfigError(f"{target.url} is no address such as http://127.0.0.1:8080")
    return http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=_TIMEOUT_S)


def _headers(target: Target) -> dict[str, str]:
    bearer = {} if target.key is None else {"Authorization": f"Bearer {target.key}"}
    return {"Content-Type": "application/json"} | bearer


def _ask(target: Target, plan: ServedPlan, prompt: str) -> int:
    """Read one streamed answer to its end; return its length in tokens."""
    body = {
        "model": target.model,
        "messages": [{"role": "user", "content": prompt}],
        "temperature": 0,
        "max_tokens": plan.tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
        "logit_bias": {str(token_id): -100 for token_id in plan.ending},
    }
    connection = _connection(target)
    try:
        connection.request("POST", _PATH, json.dumps(body).encode("utf-8"), _headers(target))
        response = connection.getresponse()
        if response.status != http.client.OK:
            raise ConfigError(f"status {response.status}: {response.read(300)!r}")
        tokens = 0
        is_done = False
        for line in response:
            if not line.startswith(b"data: "):
                continue
            data = line[6:].strip()
            if data == b"[DONE]":
                is_done = True
                break
            usage = json.loads(data).get("usage")
            tokens = usage["completion_tokens"] if usage else tokens
        if not is_done or not tokens:
            raise ConfigError("an answer did not come to its end")
        return int(tokens)
    finally:
        connection.close()


def _engine_seconds(target: Target) -> float | None:
    """Return how long the engine has computed so far, as the service counts it."""
    connection = _connection(target)
    try:
        connection.request("GET", "/metrics", headers=_headers(target))
        text = connection.getresponse().read().decode("utf-8", errors="replace")
    finally:
        connection.close()
    for line in text.splitlines():
        if line.startswith("windhover_step_seconds_sum "):
            return float(line.split()[1])
    return None
