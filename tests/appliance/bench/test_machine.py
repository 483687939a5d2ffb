"""Facts of this machine agree with what the standard library says."""

from __future__ import annotations

import json
import os

import numpy as np

from appliance.bench.machine import load_average, machine_facts


def test_facts() -> None:
    facts = machine_facts()
    assert facts["usable_cores"] == len(os.sched_getaffinity(0))
    assert facts["memory_bytes"] == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert facts["versions"]["numpy"] == np.__version__
    assert facts["versions"]["windhover"]
    assert facts["flags"]
    json.dumps(facts, allow_nan=False)


def test_load_average() -> None:
    assert load_average() >= 0.0
