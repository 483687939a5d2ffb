"""The same request gives the same ids and the same trace: with a cache, without, and under load."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from appliance.api.parsed import CHAT_PATH, COMPLETIONS_PATH
from tests.appliance.conformance.spoken import SAME, opened, speak

pytestmark = [pytest.mark.slow, pytest.mark.ci]

LONG = "the sky is blue and the sea is too " * 6
CASES = [
    (CHAT_PATH, {"messages": [{"role": "user", "content": LONG}], "temperature": 0}),
    (CHAT_PATH, {"messages": [{"role": "user", "content": LONG}], "temperature": 0.9}),
    (COMPLETIONS_PATH, {"prompt": LONG, "temperature": 0}),
]


@pytest.mark.parametrize(("path", "fields"), CASES)
def test_three_times_with_the_cache_and_without_it_gives_the_same_ids_and_trace(live, path, fields):
    asked = {"max_tokens": 12, "seed": 7} | fields
    if path == CHAT_PATH:  # nothing is there before the first time
        asked["prompt_cache_key"] = f"a key for {fields['temperature']}"
    with_cache = [speak(live, path, **asked) for _ in range(3)]
    asked.pop("prompt_cache_key", None)
    without = [speak(live.shared, path, **asked) for _ in range(3)]
    cached = [a.usage["prompt_tokens_details"]["cached_tokens"] for a in (*with_cache, *without)]
    assert (min(cached[1:3]) > 0, cached[0], cached[3:]) == (True, 0, [0, 0, 0])
    seen = [opened(live, answer.attestation) for answer in with_cache]
    seen += [opened(live.shared, answer.attestation) for answer in without]
    assert all(seen[0][name] for name in SAME)
    assert [each == seen[0] for each in seen] == [True] * 6
    # of every prompt all tokens are counted, also those that were not computed
    assert len({answer.usage["prompt_tokens"] for answer in (*with_cache, *without)}) == 1


@pytest.mark.parametrize(("path", "fields"), CASES)
def test_alone_and_beside_seven_others_it_is_the_same_ids_and_trace(live, path, fields):
    asked = {"max_tokens": 24, "seed": 7} | fields
    alone = opened(live.shared, speak(live.shared, path, **asked).attestation)

    def ask(number):
        if number % 2:
            other = {"prompt": f"{number} " * 30, "max_tokens": 40, "seed": number}
            speak(live, COMPLETIONS_PATH, stream=number % 4 == 1, **other)
            return None
        who = live if number % 4 else live.shared
        return opened(who, speak(who, path, stream=number > 2, **asked).attestation)

    with ThreadPoolExecutor(8) as pool:
        beside = [each for each in pool.map(ask, range(8)) if each is not None]
    assert [each == alone for each in beside] == [True] * 4
