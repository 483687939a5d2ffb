"""A client that is slow, or leaves at any point, on the real server without a model."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from appliance.bench.pressure.caller import Caller
from appliance.bench.pressure.exchange import Got, Leave, Manner, exchange
from appliance.bench.pressure.watch import Memory, Prober
from engine.errors import ConfigError
from tests.appliance.service.shell import CONFIGURATION, Address, Shell

if TYPE_CHECKING:
    from collections.abc import Iterator

SMALL = CONFIGURATION + "[limits]\nbody_bytes = 4096\n"


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A service without a model, which takes bodies of 4096 bytes."""
    return Shell(tmp_path_factory.mktemp("shell"), SMALL)


@pytest.fixture(scope="module")
def address(shell: Shell) -> Iterator[Address]:
    """Where it listens."""
    with shell.serving() as address:
        yield address


def url_of(address: Address) -> str:
    """Return the URL of an address."""
    return f"http://127.0.0.1:{address.server.address[1]}"


def send(address: Address, path: str, value: Any, manner: Manner | None = None) -> Got:
    """Send an object in a manner."""
    caller = Caller(url_of(address), address.key)
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return caller.send(path, body, manner or Manner(), None)


def wait_for_none(shell: Shell) -> None:
    """Wait until nothing runs any more."""
    limit = time.monotonic() + 20
    while shell.service.limits.num_running and time.monotonic() < limit:
        time.sleep(0.02)
    assert shell.service.limits.num_running == 0


def test_whole_answers_and_refusals(address: Address) -> None:
    got = send(address, "/v1/echo", b'{"a": 1}')
    assert (got.status, got.value, got.failure) == (200, {"length": 8}, None)
    assert got.code is None
    assert got.first_s is not None
    missing = Caller(url_of(address), None).send("/v1/echo", b"{}", Manner(), None)
    assert (missing.status, missing.code) == (401, "invalid_api_key")
    assert Caller(url_of(address), address.key).ask("/health").value == {"status": "ok"}
    with pytest.raises(ConfigError, match="status 404, not_found"):
        Caller(url_of(address), address.key).ask("/v1/nothing")


def test_events_until_the_client_leaves(address: Address, shell: Shell) -> None:
    wanted = {"events": 5, "pause_s": 0.01}
    got = send(address, "/v1/stream", wanted)
    assert [each.strip() for each in got.events] == [b"0", b"1", b"2", b"3", b"4"]
    for is_abrupt in (False, True):
        manner = Manner(Leave.AFTER_EVENTS, 3, is_abrupt)
        got = send(address, "/v1/stream", wanted | {"events": 2000}, manner)
        assert got.has_left
        assert 3 <= len(got.events) < 2000
        wait_for_none(shell)


@pytest.mark.parametrize("leave", [Leave.AFTER_BODY, Leave.IN_BODY])
def test_a_client_that_leaves_without_an_answer(
    address: Address, shell: Shell, leave: Leave
) -> None:
    got = send(address, "/v1/stream", {"events": 50, "pause_s": 0.1}, Manner(leave, 0.05))
    assert (got.has_left, got.status, got.failure) == (True, None, None)
    wait_for_none(shell)


def test_slow_bodies_and_slow_reading(address: Address) -> None:
    got = send(address, "/v1/echo", b" " * 100 + b"{}", Manner(send_s=0.3))
    assert got.value == {"length": 102}
    assert got.seconds > 0.2
    got = send(address, "/v1/stream", {"events": 200}, Manner(read_s=1.5, read_bytes=8))
    assert len(got.events) == 200
    assert got.seconds > 1.4


def test_what_is_too_large(address: Address) -> None:
    got = send(address, "/v1/echo", b" " * 5000)
    assert (got.status, got.code) in ((413, "request_too_large"), (None, None))


def test_a_server_that_breaks_off() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            for said in (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", b""):
                connection, _ = server.accept()
                with connection:
                    connection.recv(1 << 16)
                    connection.sendall(said)

        thread = threading.Thread(target=answer)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        cut, nothing = (exchange(url, "GET", "/", headers={}) for _ in range(2))
        thread.join()
    assert (cut.status, cut.body, cut.failure) == (200, b"short", "IncompleteRead")
    assert (nothing.status, nothing.failure) == (None, "RemoteDisconnected")
    assert exchange(url, "GET", "/", headers={}).failure == "ConnectionRefusedError"
    with pytest.raises(ConfigError, match="no address"):
        exchange("ftp://127.0.0.1", "GET", "/", headers={})


def test_health_is_probed_and_memory_sampled(address: Address) -> None:
    prober = Prober(url_of(address), 0.05)
    memory = Memory(os.getpid(), 0.05)
    memory.start()
    time.sleep(0.5)
    memory.stop()
    taken = prober.stop()
    assert taken
    assert all(each is not None and each > 0 for each in taken)
    assert len(memory.samples) > 2
    seconds, resident, anonymous, threads = memory.samples[-1]
    assert resident > anonymous > 1
    assert threads >= 2
    assert memory.resident()[-1] == (seconds / 60, resident)
