"""What clients do can be repeated, and is what the interface takes or refuses."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from typing import Any

import pytest

from appliance.api.parse import parse_request
from appliance.api.parsed import CHAT_PATH, COMPLETIONS_PATH
from appliance.api.request_error import RequestError
from appliance.bench.pressure.caller import Caller
from appliance.bench.pressure.deeds import KINDS, Deed, Deeds, Facts, Key
from appliance.bench.pressure.exchange import Leave
from appliance.bench.pressure.references import REFERENCES, References

PROBE: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
FACTS = Facts("m", context_tokens=2048, body_bytes=4096, max_tokens=48, probe=(PROBE, 30))


def deeds(seed: int, client: int, count: int) -> list[Deed]:
    """Return the first deeds of a client."""
    made = Deeds(FACTS, seed, client)
    return [made.next() for _ in range(count)]


def test_the_same_seed_gives_the_same_deeds() -> None:
    assert deeds(5, 3, 200) == deeds(5, 3, 200)
    lists = [deeds(seed, client, 50) for seed, client in itertools.product((5, 6), (3, 4))]
    assert all(a != b for a, b in itertools.combinations(lists, 2))


def test_every_kind_comes_about_as_often_as_it_says() -> None:
    assert sum(KINDS.values()) == 100
    counts = Counter(deed.kind for deed in deeds(1, 0, 3000))
    assert counts.keys() == KINDS.keys()
    for kind, percent in KINDS.items():
        assert 0.5 * percent < counts[kind] / 30 < 1.6 * percent


def test_good_requests_are_taken_and_others_refused_for_what_they_say() -> None:
    seen: set[str] = set()
    for deed in deeds(2, 1, 2000):
        if deed.body is None:
            assert deed.refusal == (404, "not_found")
            continue
        if deed.kind in ("broken JSON", "unsupported"):
            with pytest.raises(RequestError) as caught:
                parse_request(deed.path, deed.body)
            assert deed.refusal is not None
            assert deed.refusal[1] in ("", caught.value.code)
            continue
        parsed = parse_request(deed.path, deed.body)
        seen |= deed.fields.keys()
        assert parsed.stream == deed.fields.get("stream", False)
        assert (len(deed.body) > FACTS.body_bytes) == (deed.kind == "too large")
        assert (deed.key is not Key.OWN) == (deed.refusal == (401, "invalid_api_key"))
        over = 30 + deed.fields["max_tokens"] - FACTS.context_tokens
        assert (over == 1) == (deed.kind == "one token too many")
        assert over in (1, *range(-FACTS.context_tokens, 0))
    assert seen >= {
        *("messages", "prompt", "stream", "stream_options", "stop", "seed", "top_p", "tools"),
        *("frequency_penalty", "logprobs", "top_logprobs", "prompt_cache_key", "response_format"),
    }


def test_how_clients_behave() -> None:
    by_kind: dict[str, list[Deed]] = {}
    for deed in deeds(3, 2, 1000):
        by_kind.setdefault(deed.kind, []).append(deed)
    for kind, leave in (
        ("leaves at once", Leave.AFTER_BODY),
        ("leaves waiting", Leave.AFTER_BODY),
        ("leaves after events", Leave.AFTER_EVENTS),
        ("leaves in the body", Leave.IN_BODY),
        ("whole", None),
        ("stream", None),
    ):
        assert {deed.manner.leave for deed in by_kind[kind]} == {leave}
    assert {deed.manner.is_abrupt for deed in by_kind["leaves waiting"]} == {True, False}
    assert all(deed.manner.read_s > 0 for deed in by_kind["reads slowly"])
    assert all(deed.fields["stream"] for deed in by_kind["reads slowly"])
    assert all(deed.manner.send_s > 0 for deed in by_kind["writes slowly"])
    assert any(deed.nonce for deed in by_kind["whole"])


@pytest.mark.parametrize("cache_key", [None, "another"])
def test_references_are_good_requests_and_say_their_seed(cache_key: str | None) -> None:
    references = References(Caller("http://127.0.0.1:9", None), "m", 2048, 32)
    for name in REFERENCES:
        path, fields = references.request(name, cache_key)
        parsed = parse_request(path, json.dumps(fields).encode())
        assert parsed.seed is not None or parsed.sampling.temperature_millionths == 0
        assert parsed.prompt_cache_key == (cache_key if path == CHAT_PATH else None)
    assert {path for path, _ in REFERENCES.values()} == {CHAT_PATH, COMPLETIONS_PATH}
