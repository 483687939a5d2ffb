"""One service for all attacks, and /health asked throughout."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.appliance.hostile.target import MOST_PROBE_S, Prober, Target, targeted


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory, tiny_file: Path) -> Iterator[Target]:
    with targeted(tmp_path_factory.mktemp("hostile"), tiny_file) as started:
        yield started


@pytest.fixture(scope="module")
def prober(target: Target, request: pytest.FixtureRequest) -> Iterator[Prober]:
    """Ask /health while the tests of a module run; what it took is printed with `-s`."""
    started = Prober(target)
    yield started
    started.stop()
    print(f"\n{request.node.name}: {started.line()}")
    assert not started.failures
    assert max(started.seconds) < MOST_PROBE_S


@pytest.fixture
def unharmed(target: Target) -> Iterator[None]:
    """After a test the service answers, and has nothing to complain about."""
    yield
    target.check()
