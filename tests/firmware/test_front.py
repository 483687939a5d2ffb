"""The real nginx before the real service on its unix socket: what a client sees."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.appliance.cli.test_serve import DEV, ended, serve
from tests.appliance.conftest import tiny_file  # noqa: F401  (a fixture)
from tests.appliance.service.site import Site, windhover
from tests.firmware.client import Client, error
from tests.firmware.front import HOST, Front

pytestmark = [pytest.mark.slow, pytest.mark.ci]

QUESTION: dict[str, Any] = {
    "model": "model",
    "messages": [{"role": "user", "content": "Hello"}],
    "max_tokens": 24,
    "temperature": 0,
}


@pytest.fixture(scope="module")
def site(
    front: Front,
    tmp_path_factory: pytest.TempPathFactory,
    tiny_file: Any,  # noqa: F811
) -> Iterator[Site]:
    """A service that runs on the socket that nginx knows, and believes its header."""
    made = Site(tmp_path_factory.mktemp("site"), tiny_file)
    listen = f'listen = "unix:{front.socket}"\nhosts = ["{HOST}"]'
    path = made.configure(DEV, old='listen = "127.0.0.1:0"', new=listen)
    path.write_text(
        path.read_text().replace('keys = "keys.json"', 'keys = "keys.json"\ncertificates = true')
    )
    certificate, _ = front.authority.issue("client")
    keys = made.path("keys.json")
    windhover("apikey", "new", keys, "--name", "a card", "--certificate", certificate)
    process = serve(made, "--json")
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        pytest.fail(ended(process)[2])
    assert json.loads(line)["ready"] == f"unix:{front.socket}"
    try:
        yield made
    finally:
        process.send_signal(signal.SIGTERM)
        exit_code, _, err = ended(process)
    assert exit_code == 0, err


def asked(front: Front, site: Site | None, **fields: Any) -> dict[str, Any]:
    """Return the options of a request."""
    headers = {"Host": HOST}
    if site is not None:
        headers["Authorization"] = f"Bearer {site.key}"
    return {
        "url": f"{front.url}/v1/chat/completions",
        "json": QUESTION | fields,
        "headers": headers,
    }


def test_keys_certificates_streams_and_errors(front: Front, site: Site) -> None:
    with front.running("optional"), httpx.Client(verify=front.trusting(), timeout=60) as client:
        whole = client.post(**asked(front, site))
        assert whole.status_code == 200, whole.text
        answer = whole.json()
        assert answer["attestation"]["id"] == whole.headers["Windhover-Attestation"]

        with client.stream("POST", **asked(front, site, stream=True)) as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            pieces = [piece for piece in stream.iter_raw() if b"data:" in piece]
        events = b"".join(pieces).decode().split("\n\n")
        assert events[-2] == "data: [DONE]"
        chunks = [json.loads(event[6:]) for event in events if event.startswith("data: {")]
        text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)
        assert text == answer["choices"][0]["message"]["content"]
        assert chunks[-1]["attestation"]["id"] == stream.headers["Windhover-Attestation"]
        # each step was sent when it was made
        assert len(pieces) > 3

        assert client.post(**asked(front, None)).status_code == 401
        long = client.post(**asked(front, site, user="x" * (1 << 20)))
        assert (long.status_code, long.json()["error"]["code"]) == (413, "request_too_large")
        # the service's own refusal of a name that is not its own
        other = client.get(f"{front.url}/v1/models", headers={"Host": "other.example"})
        assert (other.status_code, other.json()["error"]["code"]) == (400, "invalid_host")
        assert client.get(f"{front.url}/health", headers={"Host": HOST}).json()["status"] == "ok"


def test_a_certificate_is_enough_and_can_be_required(front: Front, site: Site) -> None:
    card = front.authority.issue("another")
    known = front.folder / "client.crt", front.folder / "client.key"
    with front.running("required"):
        with httpx.Client(verify=front.trusting(*known), timeout=60) as client:
            assert client.post(**asked(front, None)).status_code == 200
        with httpx.Client(verify=front.trusting(*card), timeout=60) as client:
            # nginx believes its issuer, and the service does not know it
            assert client.post(**asked(front, None)).status_code == 401
        nobody = Client(front)
        try:
            assert error(nobody.ask()) == (403, "certificate_required")
        finally:
            nobody.close()


def test_headers_of_a_certificate_cannot_be_invented(front: Front, site: Site) -> None:
    pem = (front.folder / "client.crt").read_text().replace("\n", "%0A").replace(" ", "%20")
    lies = {"X-Windhover-Client-Certificate": pem, "X-Windhover-Client-Verify": "SUCCESS"}
    for variant in ("none", "optional"):
        with front.running(variant), httpx.Client(verify=front.trusting(), timeout=60) as client:
            request = asked(front, None)
            request["headers"] |= lies
            assert client.post(**request).status_code == 401
