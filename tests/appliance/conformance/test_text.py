"""Texts on the wire: how long they are, where they stop, and that no character is cut in two."""

from __future__ import annotations

import json

import pytest

from appliance.api.parameters import rows
from appliance.api.parsed import CHAT_PATH, COMPLETIONS_PATH
from tests.appliance.conformance.spoken import output_ids, speak

PATHS = pytest.mark.parametrize("path", [CHAT_PATH, COMPLETIONS_PATH])
STREAMS = pytest.mark.parametrize("stream", [False, True])
SAID = "né 🙂👩‍🚀 你好 𝒳 \u0800"


@PATHS
@STREAMS
@pytest.mark.parametrize("number", [1, 2])
def test_never_more_tokens_than_asked_for(live, path, stream, number):
    answer = speak(live, path, stream=stream, max_tokens=number, seed=5)
    assert answer.finish_reason == "length"
    assert len(output_ids(live, answer.attestation)) == number
    assert stream or answer.usage["completion_tokens"] == number


@PATHS
@STREAMS
def test_no_tokens_at_all_is_refused_as_documented(live, path, stream):
    asked = {"messages": [{"role": "user", "content": "Why?"}]}
    asked = asked if path == CHAT_PATH else {"prompt": "Why?"}
    response = live.post(path, max_tokens=0, stream=stream, **asked)
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, "max_tokens")
    assert error["code"] == "invalid_value"
    (row,) = [row for row in rows() if (row.path, row.name) == (path, "max_tokens")]
    assert "0 is refused" in row.values


@STREAMS
@pytest.mark.parametrize("newer", [1, 2])
def test_the_newer_name_of_the_length_holds_as_well(live, stream, newer):
    answer = speak(live, stream=stream, max_completion_tokens=newer, seed=5)
    assert len(output_ids(live, answer.attestation)) == newer


def test_characters_of_several_tokens_arrive_whole(live):
    schema = {
        "type": "object",
        "properties": {"said": {"const": SAID}},
        "required": ["said"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "said", "schema": schema}}
    asked = {"response_format": form, "max_tokens": 200, "seed": 5}
    whole, streamed = (speak(live, stream=stream, **asked) for stream in (False, True))
    assert json.loads(whole.text) == {"said": SAID}
    assert streamed.text == whole.text
    # more tokens than characters: the tokenizer has no token for most of these characters
    assert whole.usage["completion_tokens"] > len(whole.text)
    for piece in streamed.pieces:
        assert "\ufffd" not in piece
        assert piece.encode() in whole.text.encode()


@PATHS
def test_the_pieces_join_to_what_all_ids_together_mean(live, tiny_model, path):
    # with a vocabulary of single bytes a random text is full of broken characters
    whole, streamed = (
        speak(live, path, stream=stream, seed=2, max_tokens=60) for stream in (False, True)
    )
    ids = output_ids(live, streamed.attestation)
    eos_ids = tiny_model.tokenizer_config.eos_ids
    meant = tiny_model.tokenizer.decode([each for each in ids if each not in eos_ids])
    assert streamed.text == whole.text == meant
    assert "\ufffd" in meant


@PATHS
@STREAMS
def test_a_stop_string_over_several_tokens_ends_the_text_before_it(live, path, stream):
    whole = speak(live, path, max_tokens=40, seed=3).text
    at = len(whole) // 2
    stop = whole[at : at + 6]
    wanted = whole[: whole.index(stop)]
    answer = speak(live, path, stream=stream, max_tokens=40, seed=3, stop=[stop])
    assert (answer.text, answer.finish_reason) == (wanted, "stop")
    assert len(output_ids(live, answer.attestation)) < 40


@PATHS
def test_text_held_back_for_a_stop_string_comes_once(live, path):
    whole = speak(live, path, max_tokens=40, seed=2)
    middle = len(whole.text) // 2
    # each begins where the text has it, and goes on as the text does not
    places = [(0, 4), (middle, middle + 3), (middle + 3, middle + 5)]
    stops = [whole.text[start:end] + "\x00" for start, end in places]
    answer = speak(live, path, stream=True, max_tokens=40, seed=2, stop=stops)
    assert (answer.text, answer.finish_reason) == (whole.text, whole.finish_reason)


# one answer is as long as it may be, the other ends by itself
@pytest.mark.parametrize(("seed", "reason"), [(2, "length"), (3, "stop")])
@STREAMS
def test_text_held_back_when_the_answer_ends_is_handed_out(live, seed, reason, stream):
    whole = speak(live, max_tokens=20, seed=seed)
    assert whole.finish_reason == reason
    stop = whole.text[-3:] + "and never this"
    answer = speak(live, stream=stream, max_tokens=20, seed=seed, stop=stop)
    assert (answer.text, answer.finish_reason) == (whole.text, reason)
