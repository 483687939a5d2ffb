"""What one key may take, by a clock that the test moves."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.api.errors import ApiError
from appliance.service.limits import MINUTE_MS, Bucket, RateLimiter
from appliance.service.principals import KeyLimits, Principal
from appliance.service.sections import LimitSettings

NO_LIMITS = replace(LimitSettings(), requests_per_minute=0)


class Clock:
    now_ms = 0

    def __call__(self):
        return self.now_ms


@pytest.fixture
def clock():
    return Clock()


def asks(**limits):
    return Principal(id=bytes(16), name="a", scopes=frozenset(), limits=KeyLimits(**limits))


def refused(call, *arguments):
    with pytest.raises(ApiError) as error:
        call(*arguments)
    assert (error.value.status, error.value.code) == (429, "rate_limit_exceeded")
    return error.value.retry_after_s


def test_requests_are_counted_for_a_minute(clock):
    limiter, principal = RateLimiter(NO_LIMITS, clock_ms=clock), asks(requests_per_minute=3)
    for _ in range(3):
        limiter.request(principal)
    assert refused(limiter.request, principal) == 20
    clock.now_ms += 19_999
    assert refused(limiter.request, principal) == 1
    clock.now_ms += 1
    limiter.request(principal)
    refused(limiter.request, principal)


def test_the_time_to_wait_is_the_true_one(clock):
    limiter, principal = RateLimiter(NO_LIMITS, clock_ms=clock), asks(prompt_tokens_per_minute=100)
    limiter.open(principal, 90).release()
    wait_s = refused(limiter.open, principal, 50)
    assert wait_s == 24
    clock.now_ms += 1000 * wait_s
    limiter.open(principal, 50).release()


def test_a_prompt_above_the_limit_waits_for_a_full_minute_and_leaves_a_debt(clock):
    limiter, principal = RateLimiter(NO_LIMITS, clock_ms=clock), asks(prompt_tokens_per_minute=100)
    limiter.open(principal, 250).release()
    assert refused(limiter.open, principal, 1) == 91


def test_generated_tokens_are_charged_afterwards(clock):
    limiter, principal = (
        RateLimiter(NO_LIMITS, clock_ms=clock),
        asks(generated_tokens_per_minute=60),
    )
    with limiter.open(principal, 1) as slot:
        slot.generated(70)
    assert refused(limiter.open, principal, 1) == 11
    clock.now_ms += 11_000
    limiter.open(principal, 1).release()


def test_a_slot_is_released_once(clock):
    limiter, principal = RateLimiter(NO_LIMITS, clock_ms=clock), asks(concurrent_requests=2)
    one, two = limiter.open(principal, 1), limiter.open(principal, 1)
    assert refused(limiter.open, principal, 1) > 0
    for _ in range(3):
        one.release()
    assert limiter.num_running == 1
    three = limiter.open(principal, 1)
    refused(limiter.open, principal, 1)
    two.release()
    three.release()
    assert limiter.num_running == 0


def test_a_slot_is_released_once_by_many_threads():
    limiter, principal = RateLimiter(NO_LIMITS), asks()
    slots = [limiter.open(principal, 1) for _ in range(50)]
    threads = [
        threading.Thread(target=lambda: [slot.release() for slot in slots]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert limiter.num_running == 0


def test_what_is_refused_takes_nothing(clock):
    limiter = RateLimiter(NO_LIMITS, clock_ms=clock)
    principal = asks(prompt_tokens_per_minute=10, concurrent_requests=1)
    slot = limiter.open(principal, 1)
    for _ in range(5):
        refused(limiter.open, principal, 9)
    slot.release()
    limiter.open(principal, 9).release()


def test_keys_do_not_share_and_defaults_hold(clock):
    limiter = RateLimiter(replace(NO_LIMITS, requests_per_minute=1), clock_ms=clock)
    one = asks()
    limiter.request(one)
    refused(limiter.request, one)
    limiter.request(replace(one, id=b"2" * 16))
    free = replace(one, limits=KeyLimits(requests_per_minute=0))
    for _ in range(10):
        limiter.request(free)


@settings(deadline=None, max_examples=100)
@given(
    per_minute=st.integers(1, 10**6),
    steps=st.lists(st.tuples(st.integers(0, 100_000), st.integers(1, 1000)), max_size=30),
)
def test_never_more_than_the_minutes_amount_and_what_came_since(per_minute, steps):
    bucket, now_ms, taken = Bucket(per_minute, 0), 0, 0
    for passed_ms, amount in steps:
        now_ms += passed_ms
        wait_ms = bucket.wait_ms(amount, now_ms)
        if wait_ms == 0 and amount <= per_minute:
            bucket.take(amount, now_ms)
            taken += amount
            assert taken * MINUTE_MS <= per_minute * (MINUTE_MS + now_ms)
        elif amount <= per_minute:
            now_ms += wait_ms - 1
            assert bucket.wait_ms(amount, now_ms) == 1
