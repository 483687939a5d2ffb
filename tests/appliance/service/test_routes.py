"""The routes that only read: while loading, and with a small model and a real log."""

from __future__ import annotations

import base64
import json
import re

import pytest

from appliance.log.objects import read_head
from crypto.merkle import leaf_hash, verify_consistency, verify_inclusion
from tests.appliance.service.shell import Shell


@pytest.fixture
def shell(tmp_path):
    folder = tmp_path / "shell"
    folder.mkdir()
    return Shell(folder)


@pytest.fixture
def running(shell, tiny_model, log, attestor):
    shell.service.begin(model=tiny_model, log=log, attestor=attestor)
    assert shell.service.state.ready()
    return shell


def get(shell, address):
    answer = shell.app.test_client().get(address, headers=shell.headers)
    return answer.status_code, answer.get_json()


@pytest.mark.parametrize(
    "address", ["/v1/models", "/v1/log/checkpoint", "/.well-known/windhover", "/ready"]
)
def test_while_loading_it_says_so(shell, address):
    shell.service.state.loading("weights", "reading weights: 7 %")
    status, value = get(shell, address)
    assert status == 503
    assert "reading weights: 7 %" in json.dumps(value)


def test_health_and_status_answer_while_loading_and_after_a_failure(shell):
    assert get(shell, "/health") == (200, {"status": "ok"})
    shell.service.state.failed("weights", "the weights do not verify")
    assert get(shell, "/health") == (200, {"status": "ok"})
    status, value = get(shell, "/v1/status")
    assert status == 200
    assert value["state"] == "failed"
    assert value["reasons"][0]["code"] == "weights"
    assert value["memory"]["resident_bytes"] > 0


def test_health_waits_for_no_lock(shell):
    service = shell.service
    with service.state._lock, service.keys._lock, service.limits._lock:
        assert get(shell, "/health")[0] == 200


def test_models(running, tiny_model):
    status, value = get(running, "/v1/models")
    assert status == 200
    (model,) = value["data"]
    assert model["id"] == "tiny"
    assert model["model_digest"] == tiny_model.model_digest.hex()
    assert model["context_length"] == tiny_model.engine.max_positions
    assert get(running, "/v1/models/tiny") == (200, model)
    status, value = get(running, "/v1/models/Tiny")
    assert (status, value["error"]["code"]) == (404, "model_not_found")


def test_ready_and_status(running, log):
    assert get(running, "/ready") == (200, {"status": "ready", "ready": True, "reasons": []})
    status, value = get(running, "/v1/status")
    assert status == 200
    assert value["model"]["verdict"] == "unsigned"
    assert value["log"]["size"] == log.head.size
    assert running.key.text not in json.dumps(value)
    assert str(running.folder) not in json.dumps(value)


def test_a_closed_log_makes_it_not_ready(running, log):
    log.close()
    status, value = get(running, "/ready")
    assert status == 503
    assert [reason["code"] for reason in value["reasons"]] == ["log"]


def test_well_known_names_the_key_of_the_log(running, log, attest_signer):
    status, value = get(running, "/.well-known/windhover")
    assert status == 200
    assert base64.b64decode(value["attest_key"]) == attest_signer.public_key.spki_der()
    assert value["attest_key_id"] == attest_signer.public_key.key_id.hex()
    assert value["log_id"] == log.log_id.hex()


def test_checkpoint_and_proofs_verify(running, log):
    for _ in range(5):
        log.introduce_key(running.service.attestor.public_key)
    _, value = get(running, "/v1/log/checkpoint")
    head = read_head(base64.b64decode(value["checkpoint"]))
    assert (head.size, head.root.hex()) == (value["size"], value["root"])
    for index in range(head.size):
        _, proof = get(running, f"/v1/log/inclusion?index={index}&size={head.size}")
        path = [bytes.fromhex(node) for node in proof["inclusion"]]
        leaf = leaf_hash(log.files.entry(index).body)
        verify_inclusion(leaf, index, head.size, path, head.root)
    _, proof = get(running, f"/v1/log/consistency?first=2&second={head.size}")
    path = [bytes.fromhex(node) for node in proof["consistency"]]
    first = bytes.fromhex(proof["first_root"])
    verify_consistency(2, first, head.size, head.root, path)


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("inclusion", 400),
        ("inclusion?index=", 400),
        ("inclusion?index=-1", 400),
        ("inclusion?index=01", 400),
        ("inclusion?index=1e3", 400),
        ("inclusion?index=0&index=0", 400),
        ("inclusion?index=0&other=1", 400),
        ("inclusion?index=999", 404),
        ("inclusion?index=0&size=999999999", 404),
        ("inclusion?index=0&size=0", 404),
        ("inclusion?index=9999999999999999999999", 400),
        ("consistency?first=5&second=1", 404),
        ("consistency?first=0&second=99999", 404),
        ("consistency", 400),
    ],
)
def test_proofs_that_there_are_not(running, address, status):
    found, value = get(running, f"/v1/log/{address}")
    assert found == status
    assert value["error"].keys() == {"message", "type", "param", "code"}


def test_the_description_lists_the_routes(running):
    status, value = get(running, "/openapi.json")
    assert status == 200
    assert value["openapi"].startswith("3.1")
    ours = {
        re.sub("<[a-z:]+>", "{id}", rule.rule)
        for rule in running.app.url_map.iter_rules()
        if not rule.endpoint.startswith(("fake", "pages."))
    }
    assert ours <= set(value["paths"])
