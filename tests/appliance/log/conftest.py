"""Fixtures of the log's tests."""

from __future__ import annotations

import pytest

from tests.appliance.log.case import Case


@pytest.fixture
def case(tmp_path):
    return Case(tmp_path)
