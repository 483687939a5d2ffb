"""Bytes of a stream: one line of JSON an event, comments between, pings while nothing comes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.service import sse
from tests.appliance.service.desk import chunks_of, desk_of

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@given(TEXTS)
def test_whatever_a_text_holds_an_event_is_one_line(text):
    data = sse.event({"text": text})
    assert data.startswith(b"data: ")
    assert data.endswith(b"\n\n")
    assert data.count(b"\n") == 2
    assert b"\r" not in data
    assert json.loads(data[6:]) == {"text": text}


def test_half_a_surrogate_pair_is_no_text():
    with pytest.raises(ValueError, match="surrogates"):
        sse.event({"text": "\ud83d"})


def test_silence_is_filled_with_comments(tiny_model, log, attestor, attest_signer):
    desk = desk_of(tiny_model, log, attestor, attest_signer, max_running=1)
    ahead = desk.begin(max_tokens=400)
    stream = desk.stream(ping_s=0.01)
    first = next(stream)
    assert chunks_of(first)[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert next(stream) == sse.PING
    ahead.life.left()
    rest = b"".join(stream)
    assert rest.endswith(sse.DONE)
    name = chunks_of(rest)[-1]["attestation"]["id"]
    report, _ = desk.verified(name, response=first + sse.PING + rest)
    assert {s.number: s.result for s in report.steps}[21] == "passed"
    desk.stop()
