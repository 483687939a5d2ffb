"""What the files of both versions say becomes the same kinds of bytes."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from appliance.bench.charge import Charge, charge_v1, charge_v2, parse_stat
from tests.structure.source import CHECKOUT

DATA = CHECKOUT / "tests/data/cgroup"
charges = st.builds(Charge, *[st.integers(0, 1 << 50)] * 6)


def recorded(version: int) -> dict[str, str]:
    """Return the files of a group."""
    value: dict[str, Any] = json.loads((DATA / f"v{version}.json").read_text())
    files: dict[str, str] = value["files"]
    return files


def test_version_1() -> None:
    files = recorded(1)
    usage, kernel = (int(files[f"memory.{n}usage_in_bytes"]) for n in ("", "kmem."))
    charge = charge_v1(parse_stat(files["memory.stat"]), usage=usage, kernel=kernel)
    assert charge == Charge(69_832_704, 8_388_608, 8_388_608, 262_144, 0, 78_643_200)
    # The kinds make the whole, but for what processors have not added up yet.
    assert 0 <= charge.whole - charge.anonymous - charge.page_cache - charge.kernel < 1 << 20


def test_version_1_with_swap() -> None:
    stat = parse_stat(recorded(1)["memory.stat"].replace("\nswap 0", "\nswap 4096"))
    assert charge_v1(stat, usage=0, kernel=0).swap == 4096


def test_version_2() -> None:
    files = recorded(2)
    stat = parse_stat(files["memory.stat"])
    charge = charge_v2(stat, current=80_871_424, swap=20_480)
    expected = Charge(69_832_704, 8_380_416, 8_388_608, 2_621_440 + 4096, 20_480, 80_871_424)
    assert charge == expected


def test_version_2_before_the_sum_of_the_kernel() -> None:
    stat = parse_stat(recorded(2)["memory.stat"])
    del stat["kernel"]
    kernel = charge_v2(stat, current=0, swap=0).kernel
    assert kernel == 49_152 + 311_296 + 0 + 1_440 + 4_096 + 8_192 + 655_360


def test_lines_of_another_form_are_left_out() -> None:
    assert parse_stat("a 1\n\nb c\nd 2 3\n e 4 \n") == {"a": 1, "e": 4}


@given(charges, charges, charges)
def test_the_largest(a: Charge, b: Charge, c: Charge) -> None:
    assert a.largest(b) == b.largest(a)
    assert a.largest(b).largest(c) == a.largest(b.largest(c))
    assert a.largest(a) == a == a.largest(Charge())
    assert a.largest(b).as_json()["whole_bytes"] == max(a.whole, b.whole)
