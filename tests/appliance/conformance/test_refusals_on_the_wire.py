"""What OpenAI's SDK makes of what is refused, and that it asks once: counted on the wire."""

from __future__ import annotations

import httpx
import openai
import pytest

from tests.appliance.conformance.relay import Relay
from tests.appliance.service.live import QUESTION


@pytest.fixture
def relay(live):
    host, _, port = live.url.removeprefix("http://").rpartition(":")
    made = Relay(host, int(port))
    yield made
    made.close()


@pytest.fixture
def ask(live, relay):
    """Ask through the relay, with the retries that the SDK comes with."""
    opened = []

    def ask(key=None, **fields):
        headers = {"Host": relay.host}
        client = openai.OpenAI(
            base_url=relay.url, api_key=key or live.site.key, default_headers=headers
        )
        opened.append(client)
        given = {"model": "model", "messages": QUESTION, "max_tokens": 4} | fields
        return client.chat.completions.create(**given)

    yield ask
    for client in opened:
        client.close()


NEVER = [
    ({"top_p": 7}, openai.BadRequestError, 400, "invalid_value"),
    ({"max_tokens": 1 << 20}, openai.BadRequestError, 400, "context_length_exceeded"),
    ({"model": "gpt-4"}, openai.NotFoundError, 404, "model_not_found"),
    ({"messages": [{"role": "user", "content": "x" * (1 << 20)}]},
     openai.APIStatusError, 413, "request_too_large"),
    ({"extra_headers": {"Content-Type": "text/plain"}},
     openai.APIStatusError, 415, "unsupported_media_type"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "kind", "status", "code"), NEVER)
@pytest.mark.parametrize("stream", [False, True])
def test_what_the_client_has_to_mend_is_not_tried_again(
    relay, ask, fields, kind, status, code, stream
):
    with pytest.raises(openai.APIStatusError) as caught:
        ask(stream=stream, **fields)
    assert type(caught.value) is kind
    assert (caught.value.status_code, caught.value.code) == (status, code)
    assert caught.value.type == "invalid_request_error"
    assert caught.value.request_id == caught.value.response.headers["x-request-id"]
    assert relay.paths == ["/v1/chat/completions"]


def test_a_wrong_key_and_one_without_the_scope_are_not_tried_again(live, relay, ask):
    with pytest.raises(openai.AuthenticationError) as caught:
        ask("wh-wrong")
    assert caught.value.code == "invalid_api_key"
    assert caught.value.response.headers["www-authenticate"] == "Bearer"
    with pytest.raises(openai.PermissionDeniedError) as caught:
        ask(live.models_key)
    assert (caught.value.code, caught.value.type) == ("insufficient_scope", "permission_error")
    assert len(relay.paths) == 2
    with live.client(live.models_key) as client:
        assert [model.id for model in client.models.list()] == ["model"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_above_the_context_is_refused_with_both_numbers_before_any_header(
    relay, ask, stream
):
    long = [{"role": "user", "content": "x" * 2000}]
    with pytest.raises(openai.BadRequestError) as caught:
        ask(messages=long, stream=stream, max_tokens=None)
    assert caught.value.code == "context_length_exceeded"
    assert caught.value.response.headers["content-type"] == "application/json"
    assert "1024" in caught.value.message
    assert len(relay.paths) == 1


def test_one_token_more_than_the_context_is_refused_and_as_many_are_not(live, ask):
    used = ask().usage.prompt_tokens
    with pytest.raises(openai.BadRequestError) as caught:
        ask(max_tokens=1024 - used + 1)
    assert caught.value.code == "context_length_exceeded"
    for number in (used, 1024 - used + 1, 1024):
        assert str(number) in caught.value.message
    with ask(max_tokens=1024 - used, stream=True) as stream:
        assert next(iter(stream)).choices


def test_an_unknown_parameter_is_refused_by_its_name(ask):
    with pytest.raises(openai.BadRequestError, match="best_friend") as caught:
        ask(extra_body={"best_friend": 1})
    assert (caught.value.param, caught.value.code) == ("best_friend", "unsupported_parameter")


@pytest.mark.parametrize("stream", [False, True])
def test_half_a_surrogate_pair_is_refused_at_its_position(live, stream):
    flag = b"true" if stream else b"false"
    cases = {
        "/v1/chat/completions": (
            b'"messages":[{"role":"user","content":"ab\\ud83dc"}]', "messages[0].content"),
        "/v1/completions": (b'"prompt":"ab\\ud83dc"', "prompt"),
    }  # fmt: skip
    for path, (field, param) in cases.items():
        body = b'{"model":"model","max_tokens":1,"stream":' + flag + b"," + field + b"}"
        headers = live.headers | {"Content-Type": "application/json"}
        response = httpx.post(live.url + path, content=body, headers=headers)
        assert response.status_code == 400
        error = response.json()["error"]
        assert (error["code"], error["param"]) == ("invalid_json", param)
        assert "character 2" in error["message"]
        # the whole pair is one character
        whole = body.replace(b"\\ud83dc", b"\\ud83d\\ude42")
        assert httpx.post(live.url + path, content=whole, headers=headers).status_code == 200
