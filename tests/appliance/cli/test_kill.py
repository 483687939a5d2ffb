"""`kill -9` at any moment of `sign`, `seal` or `rewrap` leaves the old file or the new one."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.appliance.cli.workshop import Workshop

CHECKOUT = Path(__file__).resolve().parents[3]
CASES = ("sign", "sign sealed", "seal", "seal over", "rewrap", "rewrap to a new key")
QUICK = ("sign", "seal over", "rewrap")
MIB_8 = 65_536
"""Tokens of a vocabulary that makes a file of 8 MiB."""


def attempts(shop: Workshop, case: str, way: str, most: int, vocab_size: int) -> list[Any]:
    """Have a command killed again and again; return what was left each time."""
    plain, sealed, kept = shop.weights(vocab_size=vocab_size), shop.path("s"), shop.path("kept")
    shop.key("second", "unseal")
    shop.done("seal", plain, sealed, "--to", shop.public("appliance"))
    release = ("--key", shop.path("vendor.pem"), "--line", "demo", "--release", 1)
    opening = shop.path("appliance.pem")
    file = plain if case == "sign" else sealed
    original: Path | None = kept
    check: tuple[object, ...] = ("--key", opening)
    words: tuple[object, ...]
    if case.startswith("sign"):
        words = ("sign", file, *release)
        words += ("--unseal-key", opening) if file is sealed else ()
        check = check if file is sealed else ()
    elif case.startswith("seal"):
        words = ("seal", plain, file, "--to", shop.public("appliance"))
        words += ("--force",) if case == "seal over" else ()
        original = kept if case == "seal over" else None
    else:
        change = ("--add",) if case == "rewrap" else ("--new-key", "--to")
        words = ("rewrap", file, "--key", opening, *change, shop.public("second"))
        check = ("--key", shop.path("second.pem"))
    shutil.copyfile(file, kept)
    spec = {
        "way": way,
        "most": most,
        "file": str(file),
        "original": None if original is None else str(original),
        "words": list(map(str, words)),
        "check": list(map(str, ("check", file, "--dev", *check))),
    }
    result = subprocess.run(
        [sys.executable, "-m", "tests.appliance.cli.killing", json.dumps(spec)],
        capture_output=True,
        check=False,
        cwd=CHECKOUT,
        timeout=600,
    )
    assert result.returncode == 0, result.stderr.decode()
    found: list[Any] = json.loads(result.stdout)
    return found


def nothing_broken(found: list[Any]) -> None:
    """Require that every attempt left the old file or the new one."""
    assert [attempt for attempt in found if attempt["state"] == "broken"] == []
    # the one name that a new file can have before it has its own: it is whole, and nobody's
    assert all(len(attempt["left"]) <= 1 for attempt in found)


@pytest.mark.parametrize(
    "case",
    [
        case if case in QUICK else pytest.param(case, marks=[pytest.mark.slow, pytest.mark.ci])
        for case in CASES
    ],
)
def test_before_every_system_call(shop: Workshop, case: str) -> None:
    found = attempts(shop, case, "call", 200, 20)
    nothing_broken(found)
    *killed, last = found
    assert len(killed) > 8
    assert all(attempt["killed"] for attempt in killed)
    assert (last["killed"], last["exit_code"], last["state"]) == (False, 0, "new")
    states = [attempt["state"] for attempt in found]
    assert states == sorted(states, reverse=True)  # old until the name is taken, new from then on


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("case", CASES)
def test_at_any_moment(shop: Workshop, case: str) -> None:
    found = attempts(shop, case, "clock", 24, MIB_8)
    nothing_broken(found)
    assert len(found) == 24
    assert sum(attempt["killed"] for attempt in found) > 6
