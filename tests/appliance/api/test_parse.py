"""Bodies of requests: what they mean, and every way in which they are refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.api.json_body import MAX_BODY_BYTES, MAX_DEPTH, MAX_VALUES
from appliance.api.parse import parse_request
from appliance.api.parsed import CHAT_PATH, COMPLETIONS_PATH, EMBEDDINGS_PATH, Message
from appliance.api.prompt import prompt_ids
from appliance.api.request_error import RequestError
from appliance.api.write import write_request
from engine.errors import ConfigError
from engine.sampling.parameters import SamplingParameters

HEAD = '{"model":"m","prompt":"p"'
CHAT = '{"model":"m","messages":[{"role":"user","content":"p"}]'


def completion(more: str = ""):
    return parse_request(COMPLETIONS_PATH, f"{HEAD}{more}}}".encode())


def chat(more: str = ""):
    return parse_request(CHAT_PATH, f"{CHAT}{more}}}".encode())


def refusal(body: str | bytes, path: str = COMPLETIONS_PATH) -> RequestError:
    data = body if isinstance(body, bytes) else body.encode()
    with pytest.raises(RequestError) as caught:
        parse_request(path, data)
    assert str(caught.value).isprintable()
    return caught.value


def test_what_is_left_out_has_the_interface_s_defaults():
    for parsed in (completion(), chat()):
        assert parsed.sampling == SamplingParameters()
        assert (parsed.seed, parsed.max_tokens, parsed.stops, parsed.stream) == (
            None,
            None,
            (),
            False,
        )
    assert completion().prompt == "p"
    assert completion().messages == ()
    assert chat().prompt is None
    assert chat().messages == (Message(role="user", content="p"),)


def test_every_field_arrives():
    parsed = completion(
        ',"max_tokens":7,"temperature":0.7,"top_p":0.95,"top_k":40,"min_p":1e-2,"seed":18446744073709551615,'
        '"stop":["a","b"],"presence_penalty":-1.5,"frequency_penalty":2,"repetition_penalty":1.1,'
        '"logit_bias":{"10":-100,"9":0.5},"n":1,"stream":true'
    )
    assert parsed.max_tokens == 7
    assert parsed.seed == 2**64 - 1
    assert parsed.stops == ("a", "b")
    assert parsed.stream
    assert parsed.sampling == SamplingParameters(
        seed=2**64 - 1,
        temperature_millionths=700_000,
        top_k=40,
        top_p_millionths=950_000,
        min_p_millionths=10_000,
        repetition_penalty_millionths=1_100_000,
        presence_penalty_millionths=-1_500_000,
        frequency_penalty_millionths=2_000_000,
        logit_bias_millionths=((9, 500_000), (10, -100_000_000)),
    )
    assert parsed.parameters(7) == {
        "max_tokens": 7,
        "temperature_millionths": 700_000,
        "top_k": 40,
        "top_p_millionths": 950_000,
        "min_p_millionths": 10_000,
        "repetition_penalty_millionths": 1_100_000,
        "presence_penalty_millionths": -1_500_000,
        "frequency_penalty_millionths": 2_000_000,
        "logit_biases": 2,
        "stops": 2,
    }


def test_null_is_as_good_as_absent_where_a_field_may_be():
    assert (
        completion(',"max_tokens":null,"seed":null,"stop":null,"logit_bias":null') == completion()
    )
    assert chat(',"max_completion_tokens":9').max_tokens == 9
    assert chat(',"stop":"x"').stops == ("x",)


def test_decimals_do_not_pass_through_a_float():
    assert completion(',"temperature":0.0000005').sampling.temperature_millionths == 0
    assert completion(',"temperature":0.0000015').sampling.temperature_millionths == 2
    assert completion(',"temperature":0.30000049999999999999').sampling.temperature_millionths == (
        300_000
    )


@pytest.mark.parametrize(
    ("more", "param"),
    [
        (',"tools":[]', "tools"),
        (',"Temperature":1', "Temperature"),
        (',"max_completion_tokens":1', "max_completion_tokens"),
        (',"messages":[]', "messages"),
        (',"max_tokens":0', "max_tokens"),
        (',"max_tokens":1.0', "max_tokens"),
        (',"max_tokens":"5"', "max_tokens"),
        (',"max_tokens":true', "max_tokens"),
        (',"max_tokens":123456789012345678901234567890', "max_tokens"),
        (',"seed":-1', "seed"),
        (',"seed":18446744073709551616', "seed"),
        (',"seed":1e3', "seed"),
        (',"n":2', "n"),
        (',"n":0', "n"),
        (',"stream":1', "stream"),
        (',"stream":"true"', "stream"),
        (',"temperature":"0.7"', "temperature"),
        (',"temperature":true', "temperature"),
        (',"temperature":1e40', "temperature"),
        (',"stop":1', "stop"),
        (',"stop":["a",1]', "stop"),
        (',"stop":""', "stop"),
        (',"stop":[' + ",".join(['"a"'] * 17) + "]", "stop"),
        (',"logit_bias":[]', "logit_bias"),
        (',"logit_bias":{"01":1}', "logit_bias"),
        (',"logit_bias":{"-1":1}', "logit_bias"),
        (',"logit_bias":{"1":null}', "logit_bias"),
        (',"logit_bias":{"1":"2"}', "logit_bias"),
        (',"model":"twice"', "model"),
    ],
)
def test_a_wrong_field_is_refused_by_name(more: str, param: str):
    assert refusal(f"{HEAD}{more}}}").param == param


@pytest.mark.parametrize(
    "more",
    [
        ',"temperature":101',
        ',"temperature":-0.1',
        ',"top_p":1.1',
        ',"min_p":2',
        ',"top_k":2147483648',
        ',"repetition_penalty":0',
        ',"presence_penalty":101',
        ',"logit_bias":{"1":101}',
        ',"logit_bias":{"1048576":1}',
    ],
)
def test_a_parameter_outside_its_range_is_refused(more: str):
    with pytest.raises(ConfigError):
        completion(more)


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ("[]", "messages"),
        ("{}", "messages"),
        ("null", "messages"),
        ('["hi"]', "messages[0]"),
        ('[{"role":"user"}]', "messages[0].content"),
        ('[{"role":"user","content":"a","name":"b"}]', "messages[0].name"),
        (
            '[{"role":"user","content":"a"},{"role":"tool","content":"a"}]',
            "messages[1].tool_call_id",
        ),
        ('[{"role":1,"content":"a"}]', "messages[0].role"),
        ('[{"role":"user","content":[]}]', "messages[0].content"),
        ('[{"role":"user","content":5}]', "messages[0].content"),
        ('[{"role":"user","content":null}]', "messages[0].content"),
    ],
)
def test_wrong_messages_are_refused_by_place(messages: str, param: str):
    assert refusal(f'{{"model":"m","messages":{messages}}}', CHAT_PATH).param == param


def test_two_lengths_may_not_contradict_each_other():
    assert chat(',"max_tokens":2,"max_completion_tokens":2').max_tokens == 2
    body = f'{CHAT},"max_tokens":1,"max_completion_tokens":2}}'
    assert refusal(body, CHAT_PATH).param == "max_tokens"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b'"model"',
        b"{",
        b'{"model":"m","prompt":"p"}x',
        b'{"model":"m","prompt":"p",}',
        b"{'model':'m','prompt':'p'}",
        b'{"model":"m","prompt":"p","seed":NaN}',
        b'{"model":"m","prompt":"p","seed":Infinity}',
        b'{"model":"m","prompt":"p","seed":-Infinity}',
        b'{"model":"m","prompt":"p","seed":01}',
        b'{"model":"m","prompt":"p","seed":+1}',
        b'{"model":"m","prompt":"p","temperature":.5}',
        b'{"model":"m","prompt":"a\nb"}',
        b'{"model":"m","prompt":"\xff"}',
        b'{"model":"m","prompt":"\xed\xa0\x80"}',
        b'\xef\xbb\xbf{"model":"m","prompt":"p"}',
        b'{"model":"m","prompt":"\\ud800"}',
        b'{"model":"m","prompt":"\\udc00\\ud800"}',
        b'{"model":"m","prompt":"p","\\ud800":1}',
        b'{"model":"m"}',
        b'{"prompt":"p"}',
        b'{"model":1,"prompt":"p"}',
        b'{"model":"m","prompt":1}',
    ],
)
def test_what_is_no_request_is_refused(body: bytes):
    refusal(body)


def test_pairs_of_surrogates_are_one_character():
    assert (
        parse_request(COMPLETIONS_PATH, b'{"model":"m","prompt":"\\ud83d\\ude42"}').prompt == "🙂"
    )


def test_limits():
    wide = f'{HEAD},"stop":[{",".join(["1"] * (MAX_VALUES + 1))}]}}'
    assert "values" in str(refusal(wide))
    deep = f'{HEAD},"stop":{"[" * MAX_DEPTH}{"]" * MAX_DEPTH}}}'
    assert refusal(deep.replace("[]", "")).param == "stop"
    assert "levels" in str(refusal(deep))
    assert "levels" in str(refusal("[" * 1_000))
    long = HEAD.encode() + b" " * MAX_BODY_BYTES + b"}"
    assert "longer" in str(refusal(long))
    within = HEAD.encode() + b" " * (MAX_BODY_BYTES - len(HEAD) - 1) + b"}"
    assert parse_request(COMPLETIONS_PATH, within).prompt == "p"
    # brackets and commas of a text do not count
    text = '[{,\\"' * 60_000
    body = json.dumps({"model": "m", "prompt": text}).encode()
    assert parse_request(COMPLETIONS_PATH, body).prompt == text
    assert refusal(json.dumps({"model": "m" * 201, "prompt": ""})).param == "model"


def test_other_endpoints_are_none_of_ours():
    with pytest.raises(RequestError, match="no such endpoint"):
        parse_request("/v1/audio/speech", b"{}")


def test_what_the_client_named_is_shown_harmlessly():
    error = refusal(json.dumps({"model": "m", "prompt": "p", "\x1b[2J" + "é" * 100: 1}))
    assert str(error).isascii()
    assert len(str(error)) < 400


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.tuples(st.sampled_from(["system", "user", "assistant"]), texts), min_size=1),
    st.none() | st.integers(0, 2**64 - 1),
    st.integers(0, 100_000_000),
    st.lists(texts.filter(bool), max_size=3),
)
def test_what_is_written_is_read(messages, seed, temperature, stops):
    path, body = write_request(
        model="m",
        messages=[{"role": role, "content": content} for role, content in messages],
        options={
            "seed": seed,
            "temperature": f"{temperature // 1_000_000}.{temperature % 1_000_000:06}",
            "stop": stops or None,
            "max_tokens": 9,
        },
    )
    parsed = parse_request(path, body)
    assert [(message.role, message.content) for message in parsed.messages] == messages
    assert parsed.seed == seed
    assert parsed.sampling.temperature_millionths == temperature
    assert list(parsed.stops) == stops
    assert parsed.max_tokens == 9


@settings(deadline=None, max_examples=200)
@given(
    st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace"))
)
def test_any_bytes_are_read_or_refused(body):
    for path in (CHAT_PATH, COMPLETIONS_PATH, EMBEDDINGS_PATH):
        with pytest.raises(ConfigError):
            parse_request(path, body)


def test_a_request_that_cannot_be_read_is_not_written():
    with pytest.raises(RequestError, match="surrogate"):
        write_request(model="m", prompt="\ud800", options={})
    for wrong in ("1,", '1,"seed":5', ""):
        with pytest.raises(ConfigError, match="not a decimal"):
            write_request(model="m", prompt="", options={"temperature": wrong})
    with pytest.raises(RequestError, match="colour"):
        write_request(model="m", prompt="", options={"colour": "red"})


def test_prompt_ids_are_those_of_template_or_text(tiny_model):
    text = "hi<|im_end|>"
    path, body = write_request(model="m", prompt=text, options={})
    ids = prompt_ids(tiny_model, parse_request(path, body), now_unix_s=0)
    assert ids == tuple(tiny_model.tokenizer.encode_raw(text))
    messages = [{"role": "user", "content": text}]
    path, body = write_request(model="m", messages=messages, options={})
    ids = prompt_ids(tiny_model, parse_request(path, body), now_unix_s=0)
    assert ids == tuple(tiny_model.chat_ids(messages, now_unix_s=0))
