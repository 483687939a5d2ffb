"""Clients of a service that is gone come to an end, and say so."""

from __future__ import annotations

import time

from appliance.bench.pressure.caller import Caller
from appliance.bench.pressure.crowd import Crowd
from appliance.bench.pressure.deeds import Facts
from appliance.bench.pressure.references import References
from appliance.bench.pressure.results import Plan

NOWHERE = "http://127.0.0.1:9"


def test_a_service_that_is_gone() -> None:
    probe = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
    facts = Facts("m", context_tokens=2048, body_bytes=4096, max_tokens=48, probe=(probe, 30))
    references = References(Caller(NOWHERE, None), "m", 2048, 32)
    crowd = Crowd(NOWHERE, ("one", "two"), facts, references, Plan(minutes=0.01, clients=3))
    seen: list[tuple[int, int]] = []
    begun = time.monotonic()
    assert crowd.press(lambda done, total: seen.append((done, total))) == 0
    assert seen
    assert {end for _, end in crowd.tally.outcomes} == {"broken off"}
    # three clients that pause after each failure, and one that asks the references
    assert 4 <= crowd.tally.num_faults < 40 * (time.monotonic() - begun)
    assert any("a reference under load: ConfigError" in fault for fault in crowd.tally.faults)
    assert crowd.drawn == []
    assert crowd.tally.attestations == {}
