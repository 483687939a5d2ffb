"""The routes for text and attestations, on the application with a tiny model behind it."""

from __future__ import annotations

import base64
import json
import time

import pytest

from appliance.attestation import Attestor
from appliance.audit.findings import Result
from appliance.facts import facts_of
from appliance.service.connect import connect
from appliance.service.job import Cause
from appliance.service.key_file import write_keys
from appliance.service.keys import KeyStore
from crypto.cose import decode_sign1
from crypto.evidence import MAX_OBJECT_BYTES
from crypto.statement import decode_statement
from engine.admission import DEV
from engine.model import Model
from tests.appliance.conftest import ISSUER, SOFTWARE
from tests.appliance.service.desk import QUESTION, audit, chunks_of, text_of
from tests.appliance.service.shell import CONFIGURATION, Shell, make_key

CHAT = "/v1/chat/completions"
TOOL = {
    "type": "function",
    "function": {
        "name": "look_up",
        "parameters": {
            "type": "object",
            "properties": {"flag": {"type": "boolean"}},
            "required": ["flag"],
            "additionalProperties": False,
        },
    },
}


class Served(Shell):
    """The shell with a model behind it, and a second key."""

    def __init__(self, folder, model, log, attestor, more=""):
        folder.mkdir()
        steps = "max_running = 2\nprefill_tokens = 32\n"
        super().__init__(folder, CONFIGURATION.replace("max_running = 2\n", steps) + more)
        self.other = make_key(principal=bytes(15) + b"o")
        write_keys(folder / "keys.json", (self.key.entry, self.other.entry), force=True)
        self.service.keys = KeyStore(folder / "keys.json")
        connect(self.service)
        self.service.begin(model=model, log=log, attestor=attestor)
        assert self.service.state.ready()

    def post(self, path=CHAT, *, headers=None, **fields):
        options = {"model": "tiny", "max_tokens": 8, "seed": 3}
        options |= {"prompt": "The sky"} if path != CHAT else {"messages": QUESTION}
        client = self.app.test_client()
        return client.post(
            path,
            base_url="http://localhost",
            data=json.dumps(options | fields),
            content_type="application/json",
            headers=self.headers | (headers or {}),
        )

    def get(self, path, *, key=None, **headers):
        key = key or self.key
        bearer = {"Authorization": f"Bearer {key.text}"}
        client = self.app.test_client()
        return client.get(path, base_url="http://localhost", headers=bearer | headers)


@pytest.fixture
def served(tmp_path, tiny_model, log, attestor):
    served = Served(tmp_path / "service", tiny_model, log, attestor)
    yield served
    assert served.service.worker.numbers.places == 0
    served.service.stop()
    assert not log.open_admissions()


@pytest.fixture
def wide_served(tmp_path, tiny_file, log, attest_signer):
    """A service with room for descriptions of tools, which have many tokens here."""
    with Model(tiny_file, policy=DEV, num_threads=1, max_positions=1024, max_rows=64) as model:
        attestor = Attestor(
            attest_signer, log, facts_of(model), issuer=ISSUER, software=lambda: SOFTWARE
        )
        served = Served(tmp_path / "wide", model, log, attestor)
        yield served
        served.service.stop()


def said(statement: str):
    data = decode_sign1(base64.b64decode(statement), max_bytes=MAX_OBJECT_BYTES)
    return decode_statement(data.payload)


@pytest.mark.parametrize("path", [CHAT, "/v1/completions"])
def test_answers_carry_their_attestation(served, path):
    response = served.post(path)
    assert response.status_code == 200, response.text
    value = response.json
    attestation = value["attestation"]
    assert response.headers["Windhover-Attestation"] == attestation["id"]
    assert attestation["url"] == f"/v1/attestations/{attestation['id']}"
    assert said(attestation["statement"]).sequence == attestation["sequence"]
    streamed = served.post(path, stream=True)
    assert streamed.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert streamed.headers["X-Accel-Buffering"] == "no"
    chunks = chunks_of(streamed.data)
    assert chunks[-1]["attestation"]["id"] == streamed.headers["Windhover-Attestation"]
    streamed.close()
    line = served.lines()[-1]
    assert line["attestation"] == chunks[-1]["attestation"]["id"]
    assert line["outcome"] == "answered"
    assert line["generated_tokens"] == value["usage"]["completion_tokens"]


def test_an_attestation_is_for_who_asked_alone(served):
    name = served.post().json["attestation"]["id"]
    index, tag = name.split("-")[1:]
    got = served.get(f"/v1/attestations/{name}").json
    assert got["id"] == name
    for form in ({"Accept": "application/cbor"}, {}):
        query = "" if form else "?format=bundle"
        raw = served.get(f"/v1/attestations/{name}{query}", **form)
        assert raw.headers["Content-Type"] == "application/cbor"
        assert raw.data == base64.b64decode(got["bundle"])
    foreign = served.get(f"/v1/attestations/{name}", key=served.other)
    others = [f"att-{index}-00000000", f"att-{int(index) + 1}-{tag}", "att-99999-00000000"]
    for other in [
        *others,
        "att-1",
        "x" * 500,
        f"att-0{index}-{tag}",
        f"att-{index}-{tag.upper()}z",
    ]:
        answer = served.get(f"/v1/attestations/{other}")
        assert (answer.status_code, answer.json) == (404, foreign.json), other
    assert foreign.json["error"]["code"] == "not_found"


def test_a_nonce_is_read_strictly(served):
    good = served.post(headers={"Windhover-Nonce": "ab" * 16}, seed=None).json
    assert said(good["attestation"]["statement"]).nonce == b"\xab" * 16
    for bad in ("ab" * 15, "ab" * 65, "ab" * 16 + "a", "zz" * 16, ""):
        refused = served.post(headers={"Windhover-Nonce": bad})
        assert refused.status_code == 400, bad
        assert refused.json["error"]["param"] == "Windhover-Nonce"


@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_that_has_to_be_called_is(wide_served, stream):
    served = wide_served
    response = served.post(tools=[TOOL], tool_choice="required", max_tokens=100, stream=stream)
    assert response.status_code == 200, response.text
    if stream:
        chunks = chunks_of(response.data)
        deltas = [c["delta"].get("tool_calls", []) for o in chunks for c in o["choices"]]
        parts = [part for delta in deltas for part in delta]
        assert {part["index"] for part in parts} <= set(range(100))
        names = [part["function"]["name"] for part in parts if "name" in part["function"]]
        first = "".join(part["function"]["arguments"] for part in parts if part["index"] == 0)
        choice, content = chunks[-1]["choices"][0], text_of(chunks)
    else:
        choice = response.json["choices"][0]
        calls = choice["message"]["tool_calls"]
        names, first = [c["function"]["name"] for c in calls], calls[0]["function"]["arguments"]
        content = choice["message"]["content"] or ""
    assert set(names) == {"look_up"}
    assert json.loads(first)["flag"] in (True, False)
    assert content == ""
    value = chunks[-1] if stream else response.json
    statement = said(value["attestation"]["statement"])
    assert statement.finish_reason == choice["finish_reason"] in ("tool_calls", "length")
    raw = served.get(f"{value['attestation']['url']}?format=bundle").data
    assert set(audit(raw, served.service.model).values()) == {Result.PASSED}


def test_a_schema_that_is_not_supported_is_refused(served, log):
    size = log.head.size
    schema = {"type": "object", "properties": {"a": {"not": {"type": "string"}}}}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    response = served.post(response_format=form)
    assert response.status_code == 400
    assert "not" in response.json["error"]["message"]
    assert log.head.size == size


def test_a_client_that_hangs_up_is_noticed(served, tmp_path):
    body = json.dumps(
        {"model": "tiny", "messages": QUESTION, "max_tokens": 400, "stream": True}
    ).encode()
    with served.serving() as address:
        with address.connect() as connection:
            connection.sendall(address.post(CHAT, body))
            assert connection.recv(100)
        assert served.service.worker.wait_empty(60)
        deadline = time.monotonic() + 20
        while not (tmp_path / "service/access.jsonl").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
    lines = served.lines()
    assert lines[0]["outcome"] == "disconnected"
    assert lines[0]["generated_tokens"] < 400


def test_draining_refuses_and_waits(served):
    stream = served.post(stream=True, max_tokens=100)
    served.service.state.draining()
    assert served.post().json["error"]["code"] == "not_ready"
    served.service.worker.cancel_all(Cause.DRAIN)
    data = stream.data
    assert chunks_of(data)[-1]["error"]["code"] == "not_ready"
    assert b"[DONE]" not in data
    assert served.service.worker.numbers.places == 0
