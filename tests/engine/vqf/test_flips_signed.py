"""Bits of a signed file: refused when it is opened, when it is read, or by the trust policy."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from crypto.errors import PolicyError
from crypto.trust import TrustFile
from engine.admission import WeightsPolicy, admit
from engine.errors import FormatError, WeightsError
from engine.vqf import open_vqf
from engine.vqf.verify import verify_all
from tests.engine.vqf import vectors
from tests.engine.vqf.vectors import DATA, SIGNED

RAW = (DATA / SIGNED).read_bytes()
MANIFEST_END = 128 + int.from_bytes(RAW[32:40], "little")
DATA_START, DATA_END = 4096, 32_768
NOW = 1_800_000_000


def two_signers() -> WeightsPolicy:
    """Return a policy that asks for both signatures."""
    lines = ["version = 1", "[policy]", "require_sealed = false"]
    for name in ("signer_1", "signer_2"):
        der = base64.b64encode(vectors.key(name).public_key.spki_der()).decode()
        lines += [f"[keys.{name}]", 'role = "weights"', f'public_key = "{der}"']
    lines += ["[lines.tiny]", 'signers = ["signer_1", "signer_2"]', "threshold = 2"]
    return WeightsPolicy(trust=TrustFile.parse("\n".join(lines).encode() + b"\n"))


POLICY = two_signers()


def refusal(path: Path, data: bytes) -> str:
    """Return the rule, comparison or reason that refuses a file."""
    path.write_bytes(data)
    try:
        with open_vqf(path) as file:
            verify_all(file)
            admit(file, POLICY, now=NOW)
    except FormatError as error:
        return error.rule
    except PolicyError as error:
        return error.reason
    except WeightsError as error:
        return error.check or ""
    return "loaded"


def flipped(start: int, end: int, step: int = 1) -> Iterator[bytes]:
    """Yield the file with a random bit of every `step` bytes flipped."""
    seed = secrets.token_bytes(16)
    print("seed", seed.hex())
    draws = hashlib.shake_128(seed).digest(2 * (end - start))
    for piece, at in enumerate(range(start, end, step)):
        bits = 8 * min(step, end - at)
        bit = int.from_bytes(draws[2 * piece : 2 * piece + 2], "little") % bits
        out = bytearray(RAW)
        out[at + bit // 8] ^= 1 << bit % 8
        yield bytes(out)


def test_the_file_itself(tmp_path: Path) -> None:
    assert refusal(tmp_path / "f.vqf", RAW) == "loaded"


def test_every_bit_of_the_preamble(tmp_path: Path) -> None:
    found: Counter[str] = Counter()
    for bit in range(8 * 128):
        out = bytearray(RAW)
        out[bit // 8] ^= 1 << bit % 8
        found[refusal(tmp_path / "f.vqf", bytes(out))] += 1
    assert set(found) <= {f"R{number}" for number in range(2, 15)}
    assert found["R14"] >= 256


def test_every_byte_of_manifest_and_filling(tmp_path: Path) -> None:
    path = tmp_path / "f.vqf"
    assert {refusal(path, data) for data in flipped(128, MANIFEST_END)} == {"R14"}
    assert {refusal(path, data) for data in flipped(MANIFEST_END, 4096, 8)} == {"R13"}


def test_the_data(tmp_path: Path) -> None:
    path = tmp_path / "f.vqf"
    assert {refusal(path, data) for data in flipped(DATA_START, DATA_END, 64)} == {"V6"}


def test_every_byte_of_the_signatures(tmp_path: Path) -> None:
    path = tmp_path / "f.vqf"
    found = Counter(refusal(path, data) for data in flipped(DATA_END, len(RAW)))
    assert "loaded" not in found
    assert found["bad-signature"] >= 128
    assert set(found) <= {"S1", "S2", "S3", "S4", "S5", "bad-signature", "threshold"} | {
        "unknown-signer",
        "unknown-line",
        "wrong-line",
        "not-yet-valid",
        "expired",
        "runtime-too-old",
    }


@pytest.mark.parametrize("kept", [0, 1])
def test_one_signature_of_two(tmp_path: Path, kept: int) -> None:
    """Whoever takes one away leaves a file in order, which the threshold refuses."""
    path = tmp_path / "f.vqf"
    length = len(RAW[DATA_END:])
    first = RAW[DATA_END + 1 : DATA_END + 1 + (length - 1) // 2]
    second = RAW[DATA_END + 1 + (length - 1) // 2 :]
    assert len(first) == len(second)
    section = b"\x81" + (first, second)[kept]
    out = bytearray(RAW[:DATA_END] + section)
    out[24:32] = len(out).to_bytes(8, "little")
    out[64:72] = len(section).to_bytes(8, "little")
    assert refusal(path, bytes(out)) == "threshold"
