"""Which implementation a process gets, and that a wrong one stops it."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from crypto.bulk import PortableBulk
from crypto.errors import SelfTestError
from crypto.kernels.load import compare, load_bulk
from crypto.kernels.variants import choose, cpu_features
from simd import target
from simd.errors import UnsupportedCpuError
from simd.target import PATH_SETTING, PATHS

CHECKOUT = Path(__file__).parents[3]


def report(path: str) -> Any:
    """Return what a process on a forced path reports."""
    result = subprocess.run(
        [sys.executable, "-m", "tests.crypto.kernels.cases"],
        check=False,
        capture_output=True,
        text=True,
        cwd=CHECKOUT,
        env={**os.environ, PATH_SETTING: path},
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def portable() -> Any:
    return report("portable")


@pytest.mark.parametrize("path", PATHS)
def test_every_path_gives_the_bytes_of_the_portable_one(path: str, portable: Any) -> None:
    try:
        target.choose(platform.machine(), target.cpu_flags(), path)
    except UnsupportedCpuError as error:
        pytest.skip(f"kernel path {path} is not tested on this machine: {error}")
    found = report(path)
    variant = choose(path, cpu_features())
    assert found["path"] == path
    assert found["name"] == ("portable" if variant is None else variant.name)
    assert found["digest"] == portable["digest"]


@pytest.mark.parametrize(
    ("path", "features", "name"),
    [
        ("avx512", {"aes", "vaes", "gfni"}, "avx512-gfni"),
        ("avx512-emulated", set(), "avx512-emulated"),
        ("avx2", {"aes", "vaes", "gfni"}, "avx2-gfni"),
        ("avx2", {"aes", "vaes"}, "avx2-vaes"),
        ("avx2", {"aes"}, "avx2-aes"),
        ("avx2", set(), None),
        ("portable", {"aes", "vaes", "gfni"}, None),
    ],
)
def test_the_choice(path: str, features: set[str], name: str | None) -> None:
    variant = choose(path, frozenset(features))
    assert (variant and variant.name) == name


def test_it_is_loaded_once() -> None:
    assert load_bulk() is load_bulk()


class Wrong(PortableBulk):
    """One method gives another result, for one of its inputs."""

    lanes = 16

    def __init__(self, method: str) -> None:
        right = getattr(self, method)

        def wrong(*arguments: Any) -> Any:
            found = right(*arguments)
            if found is None:  # worked in place
                arguments[-1][-1][-1] ^= 1
            elif isinstance(found, bytearray):
                found[-1] ^= 1
            else:
                found[-1] = found[-1][:-1] + bytes([found[-1][-1] ^ 1])
            return found

        setattr(self, method, wrong)


@pytest.mark.parametrize(
    "method", ["sm3_many", "sm3_rows", "hmac_sm3_many", "sm4_ctr_many", "sm4_ctr_sm3_many"]
)
def test_a_wrong_result_stops_it(method: str) -> None:
    compare(PortableBulk(), PortableBulk())
    with pytest.raises(SelfTestError, match="differs from portable"):
        compare(Wrong(method), PortableBulk())
