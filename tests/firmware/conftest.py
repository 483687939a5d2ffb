"""Fixtures of the tests of firmware/."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.firmware.client import Client
from tests.firmware.front import Front, fronting
from tests.firmware.upstream import Upstream, standing_in


@pytest.fixture(scope="module")
def front() -> Iterator[Front]:
    """A folder for nginx."""
    with fronting() as made:
        yield made


@pytest.fixture
def upstream(front: Front) -> Iterator[Upstream]:
    """What nginx takes for the service."""
    with standing_in(front.socket) as made:
        yield made


@pytest.fixture
def connect(front: Front) -> Iterator[Callable[..., Client]]:
    """Make clients of nginx that are closed with the test."""
    made: list[Client] = []

    def make(*words: Any, **options: Any) -> Client:
        made.append(Client(front, *words, **options))
        return made[-1]

    yield make
    for client in made:
        client.close()
