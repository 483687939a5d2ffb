"""Vectors through OpenAI's SDK and LangChain as they are, and on the wire."""

from __future__ import annotations

import base64
import json

import httpx
import numpy as np
import openai
import pytest
from langchain_openai import OpenAIEmbeddings

from appliance.attestation import Attestor
from appliance.facts import facts_of
from engine.admission import DEV
from engine.model import Model
from tests.appliance.conformance.stage import Stage
from tests.appliance.conftest import ISSUER, SOFTWARE

pytestmark = [pytest.mark.slow, pytest.mark.ci]

TEXTS = ["Why is the sky blue?", "a", "né 🙂 你好", "Because of the air."]


@pytest.fixture(scope="module")
def model(embedding_file):
    with Model(embedding_file, policy=DEV, num_threads=1, max_positions=128, max_rows=64) as opened:
        yield opened


@pytest.fixture
def stage(tmp_path, model, log, attest_signer, monkeypatch):
    attestor = Attestor(
        attest_signer, log, facts_of(model), issuer=ISSUER, software=lambda: SOFTWARE
    )
    with Stage(tmp_path, model, log, attestor, monkeypatch) as made:
        yield made


def post(stage, **fields):
    """Ask on the wire."""
    url = f"http://{stage.relay.host}/v1/embeddings"
    return httpx.post(url, json={"model": "tiny"} | fields, headers=stage.served.headers)


def test_numbers_and_base64_are_the_same_vector_of_length_1(stage):
    client = stage.client()
    by_default = client.embeddings.create(model="tiny", input=TEXTS)
    as_numbers = client.embeddings.create(model="tiny", input=TEXTS, encoding_format="float")
    raw = post(stage, input=TEXTS, encoding_format="base64").json()
    assert [each.index for each in by_default.data] == list(range(len(TEXTS)))
    assert by_default.model == "tiny"
    assert by_default.usage.prompt_tokens == by_default.usage.total_tokens > 0
    for index, one in enumerate(by_default.data):
        numbers = np.array(as_numbers.data[index].embedding)
        assert numbers.ndim == 1
        assert abs(np.linalg.norm(numbers) - 1) < 1e-6
        encoded = base64.b64decode(raw["data"][index]["embedding"], validate=True)
        assert encoded == numbers.astype("<f4").tobytes()
        assert np.array_equal(np.array(one.embedding, "<f4"), numbers.astype("<f4"))


def test_a_text_and_a_list_of_it_are_one_vector_and_lists_keep_their_order(stage):
    client = stage.client()
    together = client.embeddings.create(model="tiny", input=TEXTS).data
    for index, text in enumerate(TEXTS):
        alone = client.embeddings.create(model="tiny", input=text).data
        listed = client.embeddings.create(model="tiny", input=[text]).data
        assert [each.embedding for each in (*alone, *listed)] == [together[index].embedding] * 2
    backwards = client.embeddings.create(model="tiny", input=TEXTS[::-1]).data
    assert [e.embedding for e in backwards] == [e.embedding for e in together][::-1]


REFUSED = [
    ({"input": [1, 2, 3]}, "input", "unsupported_parameter"),
    ({"input": [[1, 2], [3]]}, "input", "unsupported_parameter"),
    ({"dimensions": 8}, "dimensions", "unsupported_parameter"),
    ({"input": []}, "input", "invalid_value"),
    ({"input": ""}, "input", "invalid_value"),
    ({"input": ["a", ""]}, "input", "invalid_value"),
    ({"encoding_format": "hex"}, "encoding_format", "invalid_value"),
    ({"input": "air " * 200}, None, "context_length_exceeded"),
]


def test_what_is_no_text_is_refused_by_name(stage):
    client = stage.client()
    for fields, param, code in REFUSED:
        with pytest.raises(openai.BadRequestError) as caught:
            client.embeddings.create(**({"model": "tiny", "input": "a"} | fields))
        assert (caught.value.param, caught.value.code) == (param, code), fields
    assert len(stage.relay.paths) == len(REFUSED)


def test_vectors_carry_their_attestation(stage):
    raw = stage.client().embeddings.with_raw_response.create(model="tiny", input=TEXTS)
    attestation = raw.parse().model_extra["attestation"]
    assert raw.headers["windhover-attestation"] == attestation["id"]
    found = stage.get(attestation["url"])
    assert found.status_code == 200
    assert found.json()["statement"] == attestation["statement"]
    assert raw.request_id


def test_langchain_embeds_texts_as_they_are(stage):
    embeddings = OpenAIEmbeddings(
        model="tiny", base_url=stage.relay.url, api_key=stage.served.key.text, max_retries=0,
        check_embedding_ctx_length=False, default_headers={"Host": stage.relay.host},
    )  # fmt: skip
    documents = embeddings.embed_documents(TEXTS)
    wanted = [e.embedding for e in stage.client().embeddings.create(model="tiny", input=TEXTS).data]
    assert documents == wanted
    assert embeddings.embed_query(TEXTS[0]) == wanted[0]


def test_a_model_s_vectors_fail_as_its_answers_do(stage):
    stage.fail(RuntimeError("a secret of the inside"))
    with pytest.raises(openai.InternalServerError) as caught:
        stage.client().embeddings.create(model="tiny", input="a")
    assert caught.value.code == "engine_error"
    assert caught.value.response.headers["x-should-retry"] == "false"
    assert "secret" not in json.dumps(caught.value.body)
    assert len(stage.relay.paths) == 1
