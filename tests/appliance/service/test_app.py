"""What is refused before a route is asked, and the shape of every answer."""

from __future__ import annotations

import hashlib
import json
from urllib.parse import quote

import pytest

from appliance.service.app import place_of
from appliance.service.endpoint import PUBLIC, endpoint
from appliance.service.key_file import KeyEntry, write_keys
from tests.appliance.service.shell import CONFIGURATION, Shell, make_key

PUBLIC_ADDRESSES = {
    "/health", "/ready", "/.well-known/windhover", "/openapi.json",
    "/", "/status", "/verify.html", "/assets/chat.js",
}  # fmt: skip
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def shell(tmp_path):
    return Shell(tmp_path)


@pytest.fixture
def client(shell):
    return shell.app.test_client()


def code_of(answer):
    error = answer.get_json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    return error["code"]


def test_every_address_needs_a_key_unless_it_is_listed(shell, client):
    seen = set()
    for rule in shell.app.url_map.iter_rules():
        address = rule.rule.replace("/assets/<name>", "/assets/chat.js")
        address = address.replace("<path:name>", "x").replace("<name>", "x").replace("<id>", "x")
        for method in rule.methods - {"OPTIONS", "HEAD"}:
            answer = client.open(address, method=method)
            if address in PUBLIC_ADDRESSES:
                assert answer.status_code in (200, 503)
            else:
                assert (answer.status_code, code_of(answer)) == (401, "invalid_api_key"), rule
                assert answer.headers["WWW-Authenticate"] == "Bearer"
            seen.add(address)
    assert len(seen) > 10
    assert seen >= PUBLIC_ADDRESSES


def test_a_route_that_is_not_marked_is_refused_to_everybody(shell, client):
    answer = client.get("/v1/unmarked", headers=shell.headers)
    assert (answer.status_code, code_of(answer)) == (403, "insufficient_scope")


@pytest.mark.parametrize(
    "value",
    ["", "Bearer", "Bearer ", "Basic eDp5", "Bearer wh-aaaaaaaa-" + "A" * 43, "Bearer \u00e9",
     "Bearer a b", "Bearer " + "x" * 5000],
)  # fmt: skip
def test_other_keys_are_refused(client, value):
    answer = client.get("/metrics", headers={"Authorization": value})
    assert (answer.status_code, code_of(answer)) == (401, "invalid_api_key")


def test_a_key_without_the_scope_is_refused(tmp_path):
    shell = Shell(tmp_path)
    key = make_key(scopes=("log",))
    write_keys(tmp_path / "keys.json", (key.entry,), force=True)
    shell.service.keys.__init__(tmp_path / "keys.json")
    answer = shell.app.test_client().get(
        "/metrics", headers={"Authorization": f"Bearer {key.text}"}
    )
    assert (answer.status_code, code_of(answer)) == (403, "insufficient_scope")


def test_without_the_file_of_keys_nobody_is_answered_and_ready_says_so(shell, client):
    (shell.folder / "keys.json").unlink()
    shell.service.keys.__init__(shell.folder / "keys.json")
    answer = client.get("/metrics", headers=shell.headers)
    assert (answer.status_code, code_of(answer)) == (503, "not_ready")
    assert int(answer.headers["Retry-After"]) > 0
    ready = client.get("/ready")
    assert ready.status_code == 503
    assert "keys" in {each["code"] for each in ready.get_json()["reasons"]}
    assert str(shell.folder) not in ready.text


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "localhost:1", ""])
def test_another_host_is_refused(client, host):
    answer = client.get("/health", environ_overrides={"HTTP_HOST": host})
    assert (answer.status_code, code_of(answer)) == (400, "invalid_host")


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({}, 415, "unsupported_media_type"),
        ({"Content-Type": "text/plain"}, 415, "unsupported_media_type"),
        ({"Content-Type": "application/json; charset=utf-16"}, 415, "unsupported_media_type"),
        ({"Content-Type": "application/jsonx"}, 415, "unsupported_media_type"),
        ({"Content-Type": "application/json, text/plain"}, 415, "unsupported_media_type"),
        (JSON | {"Content-Encoding": "gzip"}, 415, "unsupported_media_type"),
        (JSON | {"Content-Encoding": "identity"}, 415, "unsupported_media_type"),
        (JSON | {"Transfer-Encoding": "chunked"}, 411, "length_required"),
    ],
)
def test_bodies_that_are_refused(shell, client, headers, status, code):
    answer = client.post("/v1/echo", data=b'{"a":1}', headers=shell.headers | headers)
    assert (answer.status_code, code_of(answer)) == (status, code)


@pytest.mark.parametrize(
    ("length", "status", "code"),
    [
        ("", 411, "length_required"),
        ("x", 411, "length_required"),
        ("-7", 411, "length_required"),
        ("8", 400, "incomplete_body"),
        ("99999999", 413, "request_too_large"),
    ],
)
def test_lengths_that_are_refused(shell, client, length, status, code):
    answer = client.post(
        "/v1/echo", data=b'{"a":1}', headers=shell.headers | JSON,
        environ_overrides={"CONTENT_LENGTH": length},
    )  # fmt: skip
    assert (answer.status_code, code_of(answer)) == (status, code)


@pytest.mark.parametrize(
    "kind",
    ["application/json", "application/json; charset=utf-8", 'Application/JSON;charset="UTF-8"'],
)
def test_bodies_that_are_taken(shell, client, kind):
    answer = client.post("/v1/echo", data=b"{}", headers=shell.headers | {"Content-Type": kind})
    assert answer.get_json() == {"length": 2}


def test_a_body_where_none_belongs_is_refused(shell, client):
    answer = client.get("/metrics", data=b"x", headers=shell.headers)
    assert code_of(answer) == "unexpected_body"


def test_query_strings_are_those_of_the_route(client):
    assert code_of(client.get("/health?a=1")) == "unknown_parameter"


@pytest.mark.parametrize(
    ("method", "address", "status", "code"),
    [
        ("GET", "/nothing", 404, "not_found"),
        ("GET", "/health/", 404, "not_found"),
        ("GET", "/v1/../health", 404, "not_found"),
        ("GET", "/static/a", 404, "not_found"),
        ("POST", "/health", 405, "method_not_allowed"),
        ("GET", "/v1/echo", 405, "method_not_allowed"),
        ("TRACE", "/health", 405, "method_not_allowed"),
        ("OPTIONS", "/health", 401, None),
    ],
)
def test_errors_of_the_framework_have_the_shape(client, method, address, status, code):
    answer = client.open(address, method=method)
    if code is None:
        assert answer.status_code in (200, 204, 401)
        return
    assert (answer.status_code, code_of(answer)) == (status, code)
    if status == 405:
        assert answer.headers["Allow"]


def test_a_failure_that_nobody_expected_tells_nothing(shell, client):
    answer = client.get("/v1/broken", headers=shell.headers)
    assert (answer.status_code, code_of(answer)) == (500, "engine_error")
    assert answer.headers["x-should-retry"] == "false"
    assert "secret" not in answer.text
    answer.close()
    (line,) = shell.lines()
    assert line["error"].startswith("ZeroDivisionError at ")
    assert "a secret" not in json.dumps(line)
    (noted,) = shell.service.errors
    assert noted["kind"] == "ZeroDivisionError"


def test_a_place_is_in_our_code():
    with pytest.raises(ValueError, match="no scope") as error:
        endpoint("nothing")
    assert place_of(error.value).startswith("appliance/service/endpoint.py:")
    assert endpoint(PUBLIC)


def test_every_answer_has_the_headers(shell, client):
    for answer in (client.get("/health"), client.get("/nothing"), client.get("/metrics")):
        headers = answer.headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
        assert headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert len(headers["X-Request-Id"]) == 32
        assert "Access-Control-Allow-Origin" not in headers
        assert "Set-Cookie" not in headers


def test_head_has_no_body(client):
    answer = client.head("/health")
    assert (answer.status_code, answer.data) == (200, b"")


def test_origins_are_listed_exactly(tmp_path):
    text = CONFIGURATION + 'cors_origins = ["https://chat.example"]\n'
    client = Shell(tmp_path, text).app.test_client()
    asked = {"Origin": "https://chat.example", "Access-Control-Request-Method": "POST"}
    answer = client.options("/v1/echo", headers=asked)
    assert answer.status_code == 204
    assert answer.headers["Access-Control-Allow-Origin"] == "https://chat.example"
    assert "Access-Control-Allow-Credentials" not in answer.headers
    for origin in ("https://chat.example.evil", "null", "http://chat.example"):
        answer = client.options("/v1/echo", headers=asked | {"Origin": origin})
        assert "Access-Control-Allow-Origin" not in answer.headers
        assert answer.headers["Vary"] == "Origin"


def test_requests_of_one_key_are_limited(tmp_path):
    shell = Shell(tmp_path, CONFIGURATION + "[limits]\nrequests_per_minute = 2\n")
    client = shell.app.test_client()
    for status in (200, 200, 429):
        answer = client.post("/v1/echo", data=b"{}", headers=shell.headers | JSON)
        assert answer.status_code == status
    assert code_of(answer) == "rate_limit_exceeded"
    assert 1 <= int(answer.headers["Retry-After"]) <= 30


PEM = "-----BEGIN CERTIFICATE-----\nY2VydA==\n-----END CERTIFICATE-----\n"
SHOWN = {
    "X-Windhover-Client-Certificate": quote(PEM),
    "X-Windhover-Client-Verify": "SUCCESS",
}


def certified(tmp_path):
    text = CONFIGURATION.replace("127.0.0.1:0", "unix:/run/s") + 'hosts = ["localhost"]\n'
    text = text.replace('keys = "keys.json"', 'keys = "keys.json"\ncertificates = true')
    shell = Shell(tmp_path, text)
    entry = KeyEntry(
        id="aaaaaaaa", principal=b"p" * 16, name="c", scopes=("metrics",), created_s=0,
        salt=b"", digest=hashlib.sha256(b"cert").digest(),
    )  # fmt: skip
    write_keys(tmp_path / "keys.json", (entry,), force=True)
    shell.service.keys.__init__(tmp_path / "keys.json")
    return shell


def test_a_certificate_of_nginx_is_believed_on_a_unix_socket(tmp_path):
    client = certified(tmp_path).app.test_client()
    assert client.get("/metrics", headers=SHOWN).status_code == 200
    failed = SHOWN | {"X-Windhover-Client-Verify": "FAILED:expired"}
    assert client.get("/metrics", headers=failed).status_code == 401
    other = SHOWN | {"X-Windhover-Client-Certificate": quote(PEM.replace("Y2", "Y3"))}
    assert client.get("/metrics", headers=other).status_code == 401
    junk = SHOWN | {"X-Windhover-Client-Certificate": "%FF%00"}
    assert client.get("/metrics", headers=junk).status_code == 401


def test_the_header_of_a_certificate_is_refused_elsewhere(shell, client):
    for name, value in SHOWN.items():
        answer = client.get("/metrics", headers=shell.headers | {name: value})
        assert (answer.status_code, code_of(answer)) == (400, "certificate_header")
