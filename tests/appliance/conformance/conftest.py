"""Clients of the service that runs as a process, and a service in this process to break."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.appliance.conformance.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    import openai

    from tests.appliance.service.live import Live


@pytest.fixture
def client(live: Live) -> Iterator[openai.OpenAI]:
    """OpenAI's SDK with the key for everything, without retries."""
    with live.client() as made:
        yield made


@pytest.fixture
def stage(tmp_path, tiny_model, log, attestor, monkeypatch) -> Iterator[Stage]:
    """A service of this process behind a relay, two requests at once and one waiting."""
    with Stage(tmp_path, tiny_model, log, attestor, monkeypatch) as made:
        yield made
