"""The real server on real sockets: what a hostile, slow or leaving client can do, and the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.appliance.service.shell import CONFIGURATION, Shell, read_answer
from tests.structure.source import CHECKOUT

BODY = b'{"a":1}'
CHILD = """
import pathlib, sys, json
from tests.appliance.service.shell import Shell
from appliance.service.server import Server
shell = Shell(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).read_text())
server = Server(shell.service, shell.app)
shell.service.on_stop.append(lambda: print("stopped", flush=True))
print(json.dumps([*server.address, shell.key.text]), flush=True)
code = server.run()
shell.service.stop()
sys.exit(code)
"""


@pytest.fixture
def shell(tmp_path):
    return Shell(tmp_path)


@pytest.fixture
def server(shell):
    with shell.serving() as address:
        yield address


@pytest.mark.parametrize(
    ("headers", "body", "status", "code"),
    [
        (("Content-Length: 7", "Content-Length: 7"), BODY, 400, "bad_request"),
        (("Content-Length: 7", "Content-Length: 8"), BODY, 400, "bad_request"),
        (("Content-Length: 7, 7",), BODY, 400, "bad_request"),
        (("Content-Length: -1",), BODY, 400, "bad_request"),
        (("Content-Length: +7",), BODY, 400, "bad_request"),
        (("Transfer-Encoding: chunked",), b"7\r\n" + BODY + b"\r\n0\r\n\r\n", 411, None),
        (("Content-Length: 7", "Transfer-Encoding: chunked"), BODY, 411, "length_required"),
        (("Transfer-Encoding: gzip, chunked",), b"", 400, "bad_request"),
        (("Content-Length: 10000000000",), b"", 413, "request_too_large"),
        (
            ("Content-Length: 10000000000", "Expect: 100-continue"),
            b"",
            413,
            "request_too_large",
        ),
        (("X: " + "y" * 20_000,), b"", 431, None),
        (tuple(f"X-{n}: 1" for n in range(200)), b"", 431, None),
        (("Content-Type: application/json",) * 2, b"", 400, "bad_request"),
        (("Bad header",), b"", 400, "bad_request"),
        ((), b"", 411, "length_required"),
    ],
)
def test_what_the_server_refuses_itself(server, headers, body, status, code):
    answer = server.ask(server.head("POST /v1/echo", *headers) + body)
    assert answer.status == status
    assert answer.code == code or code is None
    assert server.health() == 200


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"get /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /\x00 HTTP/1.1\nHost: localhost\n\r\n\r\n",
        b"A" * 40_000,
    ],
)
def test_garbage_is_answered_with_an_error(server, data):
    answer = server.ask(data)
    assert 400 <= answer.status < 500
    assert answer.code
    assert server.health() == 200


def test_a_body_at_the_limit_and_one_above(server, shell):
    most = shell.settings.limits.body_bytes
    assert json.loads(server.ask(server.post("/v1/echo", b"x" * most)).body) == {"length": most}
    answer = server.ask(server.post("/v1/echo", b"x" * (most + 1)))
    assert (answer.status, answer.code) == (413, "request_too_large")


def test_health_answers_beside_slow_and_idle_connections(server):
    held = [server.connect() for _ in range(60)]
    for number, connection in enumerate(held):
        if number % 3 == 0:
            connection.sendall(b"POST /v1/echo HTTP/1.1\r\nHo")
        elif number % 3 == 1:
            connection.sendall(server.post("/v1/echo", BODY)[:-1])
    assert [server.health() for _ in range(5)] == [200] * 5
    for connection in held[1::3]:
        connection.sendall(BODY[-1:])
        assert read_answer(connection.makefile("rb")).status == 200
    for connection in held:
        connection.close()


def test_health_answers_while_every_stream_is_taken(server, shell):
    model, limits = shell.settings.model, shell.settings.limits
    wanted = b'{"events": 100000, "pause_s": 0.01}'
    held = [server.connect() for _ in range(model.max_running + limits.max_queued)]
    for connection in held:
        connection.sendall(server.post("/v1/stream", wanted))
        assert connection.recv(9) == b"HTTP/1.1 "
    assert server.health() == 200
    for connection in held:
        connection.close()
    _until(lambda: shell.service.limits.num_running == 0)


def test_slow_requests_and_readers_are_cut_off(tmp_path):
    short = "receive_s = 1\nidle_s = 1\nstall_s = 1\n"
    shell = Shell(tmp_path, CONFIGURATION + short)
    with (
        shell.serving() as server,
        server.connect() as arriving,
        server.connect() as idle,
        server.connect() as reader,
    ):
        arriving.sendall(b"POST /v1/echo HTTP/1.1\r\n")
        reader.sendall(server.post("/v1/stream", b'{"events": 1000, "bytes": 100000}'))
        _until(lambda: shell.service.limits.num_running == 1)
        assert arriving.recv(1) == b""
        assert idle.recv(1) == b""
        _until(lambda: shell.service.limits.num_running == 0)


def test_a_drip_of_bytes_does_not_keep_a_request_open(tmp_path):
    shell = Shell(tmp_path, CONFIGURATION + "receive_s = 1\n")
    with shell.serving() as server, server.connect() as connection:
        connection.settimeout(0.1)
        for _ in range(200):
            try:
                connection.sendall(b"G")
                if connection.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        else:
            pytest.fail("still open")


def test_a_client_that_leaves_frees_its_place(server, shell):
    with server.connect() as connection:
        connection.sendall(server.post("/v1/stream", b'{"events": 100000, "pause_s": 0.01}'))
        connection.recv(100)
        assert shell.service.limits.num_running == 1
    _until(lambda: shell.service.limits.num_running == 0)


def test_pipelined_requests_are_answered_in_order(server):
    with server.connect() as connection:
        requests = [server.post("/v1/echo", b"x" * n) for n in (1, 2, 3)]
        connection.sendall(b"".join(requests))
        stream = connection.makefile("rb")
        bodies = [json.loads(read_answer(stream).body) for _ in requests]
    assert bodies == [{"length": n} for n in (1, 2, 3)]


def test_a_connection_goes_on_after_a_refusal_with_a_body(server):
    with server.connect() as connection:
        stream = connection.makefile("rb")
        refused = server.post("/v1/echo", b"x" * 100_000).replace(b"Bearer wh-", b"Bearer no-")
        connection.sendall(refused)
        assert read_answer(stream).code == "invalid_api_key"
        connection.sendall(server.post("/v1/echo", BODY))
        assert read_answer(stream).status == 200


def test_another_host_is_refused(server):
    data = server.head("GET /health").replace(b"Host: 127.0.0.1", b"Host: evil.example")
    assert server.ask(data).code == "invalid_host"
    data = server.head("GET /health").replace(b"127.0.0.1", b"127.0.0.1.evil.example")
    assert server.ask(data).code == "invalid_host"


def test_a_unix_socket_is_for_owner_and_group(tmp_path):
    text = CONFIGURATION.replace("127.0.0.1:0", f"unix:{tmp_path}/s")
    shell = Shell(tmp_path, text + 'hosts = ["127.0.0.1:0"]\n')
    path = tmp_path / "s"
    for _ in range(2):  # what a killed process leaves behind does not stand in the way
        with shell.serving() as server:
            assert path.stat().st_mode & 0o777 == 0o660
            assert server.health() == 200
        assert not path.exists()


def test_sigterm_lets_streams_finish_and_refuses_new_ones(tmp_path):
    child, address, key = _child(tmp_path, "drain_s = 30\n")
    with child, address.connect() as connection:
        connection.sendall(address.post("/v1/stream", b'{"events": 30, "pause_s": 0.05}'))
        connection.recv(10)
        child.send_signal(signal.SIGTERM)
        _until(lambda: _ready(address)["status"] == "draining")
        rest = b""
        while piece := connection.recv(65536):
            rest += piece
        assert rest.count(b"data: ") == 30
        assert rest.endswith(b"0\r\n\r\n")
        assert child.wait(20) == 0
        assert child.stdout.read() == b"stopped\n"
    assert key not in (tmp_path / "access.jsonl").read_text()


def test_a_second_signal_ends_at_once(tmp_path):
    child, address, _ = _child(tmp_path, "drain_s = 3600\n")
    with child, address.connect() as connection:
        connection.sendall(address.post("/v1/stream", b'{"events": 100000, "pause_s": 0.05}'))
        connection.recv(10)
        child.send_signal(signal.SIGTERM)
        _until(lambda: _ready(address)["status"] == "draining")
        child.send_signal(signal.SIGINT)
        rest = b""
        while piece := connection.recv(65536):
            rest += piece
        assert rest.endswith(b"data: cancelled\n\n\r\n0\r\n\r\n")
        assert child.wait(30) == 0


def test_what_is_left_after_the_time_is_cancelled(tmp_path):
    child, address, _ = _child(tmp_path, "drain_s = 1\n")
    with child, address.connect() as connection:
        connection.sendall(address.post("/v1/stream", b'{"events": 100000, "pause_s": 0.05}'))
        connection.recv(10)
        child.send_signal(signal.SIGTERM)
        rest = b""
        while piece := connection.recv(65536):
            rest += piece
        assert rest.endswith(b"data: cancelled\n\n\r\n0\r\n\r\n")
        assert child.wait(30) == 0


def test_a_log_that_was_renamed_goes_on_in_a_new_file_after_sighup(tmp_path):
    child, address, _ = _child(tmp_path, "")
    log, old = tmp_path / "access.jsonl", tmp_path / "access.jsonl.1"
    statuses = []
    with child:
        for number in range(60):
            if number == 20:
                log.rename(old)
            if number == 40:
                child.send_signal(signal.SIGHUP)
                _until(lambda: address.health() == 200 and log.exists())
            statuses.append(address.ask(address.head("GET /openapi.json")).status)
        child.send_signal(signal.SIGTERM)
        assert child.wait(20) == 0
    assert set(statuses) == {200}
    routes = [[json.loads(line).get("route") for line in _lines(path)] for path in (old, log)]
    numbers = [names.count("/openapi.json") for names in routes]
    assert numbers[0] >= 40
    assert numbers[1] > 0
    assert sum(numbers) == 60


def _lines(path):
    return path.read_text().splitlines()


def _ready(address):
    return json.loads(address.ask(address.head("GET /ready")).body)


def _child(folder, more):
    configuration = folder / "given.toml"
    configuration.write_text(CONFIGURATION + more)
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(folder), str(configuration)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        cwd=CHECKOUT,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
    )
    host, port, key = json.loads(child.stdout.readline())

    class Listening:
        address = (host, port)

    from tests.appliance.service.shell import Address

    return child, Address(Listening(), key), key


def _until(happens):
    for _ in range(2000):
        if happens():
            return
        time.sleep(0.01)
    pytest.fail("it did not happen")
