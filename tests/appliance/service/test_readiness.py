"""The state of a service, from loading to draining."""

from __future__ import annotations

import pytest

from appliance.api.errors import ApiError
from appliance.service.readiness import Readiness


def codes(state):
    return [reason.code for reason in state.reasons]


def test_it_goes_forward_only():
    state = Readiness()
    assert (state.phase, state.is_ready) == ("loading", False)
    state.loading("weights", "reading weights")
    assert codes(state) == ["weights"]
    assert state.ready()
    state.loading("weights", "again")
    assert (state.phase, codes(state)) == ("ready", [])
    state.require()
    state.draining()
    assert not state.ready()
    state.failed("late", "too late")
    assert (state.phase, codes(state)) == ("draining", ["draining"])


def test_the_first_failure_stays():
    state = Readiness()
    state.failed("one", "first")
    state.failed("two", "second")
    assert not state.ready()
    assert (state.phase, codes(state)) == ("failed", ["one"])


def test_problems_come_and_go():
    state = Readiness()
    state.ready()
    state.problem("keys", "no file")
    state.problem("log", "full")
    with pytest.raises(ApiError) as error:
        state.require()
    assert (error.value.status, error.value.code, error.value.message) == (
        503,
        "not_ready",
        "no file",
    )
    assert error.value.retry_after_s
    state.clear("keys")
    assert codes(state) == ["log"]
    state.clear("log")
    state.clear("log")
    assert state.is_ready
