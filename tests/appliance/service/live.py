"""A service that runs as a process of its own, and how clients reach it."""

from __future__ import annotations

import base64
import copy
import json
import signal
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import httpx
import openai
import pytest

from crypto.cose import decode_sign1
from crypto.evidence import MAX_OBJECT_BYTES
from crypto.statement import Statement, decode_statement
from tests.appliance.cli.test_serve import DEV, ended, serve
from tests.appliance.service.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUESTION: Any = [{"role": "user", "content": "Why is the sky blue?"}]
SCOPES = ("generate", "embeddings", "models", "attestations", "log", "metrics", "status")


@dataclass
class Live:
    """A service that runs, and how to reach it.

    site: its folder, with a key for everything. models_key: one that may only list models.
    shared_key: one that several people stand behind, so that there is no prefix cache.
    """

    site: Site
    url: str
    models_key: str
    shared_key: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.site.key}"}

    @property
    def shared(self) -> Live:
        """The same for the shared key."""
        site = copy.copy(self.site)
        site.key = self.shared_key
        return replace(self, site=site)

    def client(self, key: str | None = None, **options: Any) -> openai.OpenAI:
        made = {"base_url": f"{self.url}/v1", "max_retries": 0, "timeout": 60.0} | options
        return openai.OpenAI(api_key=key or self.site.key, **made)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return httpx.get(self.url + path, headers=self.headers, timeout=60, **options)

    def post(self, path: str, **fields: Any) -> httpx.Response:
        """Ask with an object as the body."""
        body = {"model": "model"} | fields
        return httpx.post(self.url + path, json=body, headers=self.headers, timeout=60)

    def bundle(self, attestation: str) -> bytes:
        response = self.get(f"/v1/attestations/{attestation}", params={"format": "bundle"})
        assert response.status_code == 200, response.text
        return response.content

    def statement(self, attestation: str) -> Statement:
        """Return the statement of a request, once there is one."""
        for _ in range(200):
            response = self.get(f"/v1/attestations/{attestation}")
            if response.status_code == 200:
                signed = base64.b64decode(response.json()["statement"])
                payload = decode_sign1(signed, max_bytes=MAX_OBJECT_BYTES).payload
                return decode_statement(payload)
            time.sleep(0.05)
        pytest.fail(response.text)


@contextmanager
def living(folder: Path, weights: Path) -> Iterator[Live]:
    """Start a service in a folder, with a key for everything, and end it as an operator does."""
    site = Site(folder, weights)
    # the description of a tool takes more than half of the tiny model's context
    path = site.configure(DEV, old="context_tokens = 256", new="context_tokens = 1024")
    path.write_text(path.read_text() + "[limits]\nrequests_per_minute = 0\n")
    site.key = site.new_key(*SCOPES)
    others = site.new_key("models"), site.new_key(*SCOPES, shared=True)
    process = serve(site, "--json")
    assert process.stdout is not None
    ready = json.loads(process.stdout.readline() or "{}")
    if "ready" not in ready:
        pytest.fail(ended(process)[2])
    try:
        yield Live(site, ready["ready"], *others)
    finally:
        process.send_signal(signal.SIGTERM)
        exit_code, _, err = ended(process)
    assert exit_code == 0, err
