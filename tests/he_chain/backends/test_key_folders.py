"""Folders of keys: what is in them, what must not be, and what happens when it is damaged."""

from __future__ import annotations

import json
import os
import stat

import numpy as np
import pytest

from crypto.errors import WriteError
from he_chain.backends.key_folder import galois_name
from he_chain.backends.mock import MockEvaluator, MockHolder
from he_chain.backends.seal import SealEvaluator, SealHolder
from he_chain.errors import BackendError, PlanError, ProtocolError, SecurityError
from he_chain.parameters import Parameters
from tests.he_chain.backends.conftest import ONE_LEVEL

BACKENDS = {"mock": (MockHolder, MockEvaluator), "seal": (SealHolder, SealEvaluator)}


@pytest.fixture(params=["mock", "seal"])
def kinds(request):
    return BACKENDS[request.param]


def test_a_saved_key_is_the_same_key(kinds, tmp_path) -> None:
    holder_type, evaluator_type = kinds
    holder = holder_type.create(ONE_LEVEL)
    holder.save(tmp_path / "holder")
    again = holder_type.open(tmp_path / "holder")
    assert again.parameters == ONE_LEVEL
    again.write_evaluation_keys(tmp_path / "evaluator", [1, 1, 0, -1, 2049])
    evaluator = evaluator_type.open(tmp_path / "evaluator")
    assert evaluator.parameters == ONE_LEVEL
    assert evaluator.rotations == {1, 2047}
    values = np.linspace(-1, 1, 2048)
    rotated = evaluator.rotate(evaluator.load(again.encrypt(values)), 1)
    assert np.allclose(holder.decrypt(evaluator.dump(rotated)), np.roll(values, -1), atol=1e-2)


def test_nobody_else_can_read_the_secret_at_any_moment(kinds, tmp_path, monkeypatch) -> None:
    made = []
    real_open = os.open

    def watched(path, flags, mode=0o777, **others):
        descriptor = real_open(path, flags, mode, **others)
        if flags & (os.O_CREAT | getattr(os, "O_TMPFILE", 0) & ~os.O_DIRECTORY):
            made.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return descriptor

    monkeypatch.setattr(os, "open", watched)
    old_mask = os.umask(0)
    try:
        kinds[0].create(ONE_LEVEL).save(tmp_path / "holder")
    finally:
        os.umask(old_mask)
    assert made
    assert set(made) == {0o600}
    assert stat.S_IMODE((tmp_path / "holder").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "holder/secret.key").stat().st_mode) == 0o600
    assert sorted(p.name for p in (tmp_path / "holder").iterdir()) == [
        "parameters.json",
        "secret.key",
    ]


def test_a_secret_key_that_others_can_read_is_refused(kinds, tmp_path) -> None:
    kinds[0].create(ONE_LEVEL).save(tmp_path)
    (tmp_path / "secret.key").chmod(0o640)
    with pytest.raises(SecurityError, match="mode 0640"):
        kinds[0].open(tmp_path)
    (tmp_path / "secret.key").unlink()
    with pytest.raises(SecurityError, match="no such file"):
        kinds[0].open(tmp_path)


def test_an_evaluator_refuses_a_folder_with_a_secret_key(kinds, tmp_path) -> None:
    holder_type, evaluator_type = kinds
    holder = holder_type.create(ONE_LEVEL)
    holder.write_evaluation_keys(tmp_path / "evaluator", [1])
    evaluator_type.open(tmp_path / "evaluator")
    (tmp_path / "evaluator/secret.key").symlink_to(tmp_path / "nowhere")
    with pytest.raises(SecurityError, match="must not see"):
        evaluator_type.open(tmp_path / "evaluator")
    holder.save(tmp_path / "holder")
    with pytest.raises(SecurityError, match="must not see"):
        holder.write_evaluation_keys(tmp_path / "holder", [1])
    with pytest.raises(SecurityError, match="must not see"):
        evaluator_type.open(tmp_path / "holder")


def test_no_part_of_the_secret_is_in_the_evaluators_folder(tmp_path) -> None:
    holder = SealHolder.create(ONE_LEVEL)
    holder.save(tmp_path / "holder")
    holder.write_evaluation_keys(tmp_path / "evaluator", [1, 2])
    secret = (tmp_path / "holder/secret.key").read_bytes()
    pieces = {secret[i : i + 16] for i in range(100, len(secret) - 16, 97)}
    for path in (tmp_path / "evaluator").rglob("*.key"):
        content = path.read_bytes()
        assert not any(piece in content for piece in pieces)


def test_nothing_is_overwritten(kinds, tmp_path) -> None:
    holder = kinds[0].create(ONE_LEVEL)
    holder.save(tmp_path / "holder")
    holder.write_evaluation_keys(tmp_path / "evaluator", [1])
    with pytest.raises(WriteError, match="exists"):
        kinds[0].create(ONE_LEVEL).save(tmp_path / "holder")
    with pytest.raises(WriteError, match="exists"):
        holder.write_evaluation_keys(tmp_path / "evaluator", [1])


def test_one_file_a_rotation_and_no_others(tmp_path) -> None:
    written = SealHolder.create(ONE_LEVEL).write_evaluation_keys(tmp_path, [1, -1, 300])
    files = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    assert files == [
        "galois/000001.key",
        "galois/000300.key",
        "galois/002047.key",
        "parameters.json",
        "public.key",
        "relin.key",
    ]
    assert written == sum((tmp_path / name).stat().st_size for name in files)


@pytest.mark.parametrize("name", ["public.key", "relin.key", galois_name(1), "parameters.json"])
def test_damaged_keys_are_refused(tmp_path, name) -> None:
    SealHolder.create(ONE_LEVEL).write_evaluation_keys(tmp_path, [1])
    path = tmp_path / name
    whole = path.read_bytes()
    for position in (0, 5, 9, 41, 60, 100, len(whole) // 2, len(whole) - 2):
        changed = bytearray(whole)
        changed[position % len(whole)] ^= 0x40
        path.write_bytes(changed)
        with pytest.raises((ProtocolError, SecurityError, PlanError)):
            SealEvaluator.open(tmp_path)
    for data in (b"", whole[:-3], whole[: len(whole) // 2], whole + b"\0", bytes(9_000_000)):
        path.write_bytes(data)
        with pytest.raises(ProtocolError):
            SealEvaluator.open(tmp_path)
    path.unlink()
    with pytest.raises(ProtocolError):
        SealEvaluator.open(tmp_path)


def test_exchanged_rotation_keys_are_refused(tmp_path) -> None:
    SealHolder.create(ONE_LEVEL).write_evaluation_keys(tmp_path, [1, 2])
    one, two = (tmp_path / galois_name(steps) for steps in (1, 2))
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    with pytest.raises(ProtocolError, match="another rotation"):
        SealEvaluator.open(tmp_path)


def test_keys_of_another_backend_are_refused(tmp_path) -> None:
    MockHolder.create(ONE_LEVEL).write_evaluation_keys(tmp_path, [1])
    with pytest.raises(ProtocolError, match="'mock'"):
        SealEvaluator.open(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"format": "windhover he-keys 2"},
        {"backend": 7},
        {"security_bits": "128"},
        {"security_bits": -1},
        {"rotations": [2, 1]},
        {"rotations": [0]},
        {"rotations": [2048]},
        {"rotations": None},
        {"parameters": None},
        {"parameters": {}},
        {"more": 1},
    ],
)
def test_malformed_parameters_are_refused(tmp_path, change) -> None:
    MockHolder.create(ONE_LEVEL).write_evaluation_keys(tmp_path, [1])
    path = tmp_path / "parameters.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ProtocolError, match="malformed"):
        MockEvaluator.open(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"ring_degree": 4095},
        {"ring_degree": 0},
        {"ring_degree": 2**20},
        {"num_levels": True},
        {"num_levels": 65},
        {"first_bits": 61},
        {"scale_bits": 30.0},
    ],
)
def test_impossible_parameters_are_refused(tmp_path, change) -> None:
    MockHolder.create(ONE_LEVEL).write_evaluation_keys(tmp_path, [1])
    path = tmp_path / "parameters.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"parameters": content["parameters"] | change}))
    with pytest.raises(ProtocolError, match="malformed"):
        MockEvaluator.open(tmp_path)


def test_parameters_below_their_security_are_refused(tmp_path) -> None:
    large = Parameters(ring_degree=4096, num_levels=2)
    with pytest.raises(SecurityError, match="above the 109"):
        SealHolder.create(large)
    with pytest.raises(SecurityError, match="above the 58"):
        SealHolder.create(ONE_LEVEL, 256)
    MockHolder.create(large).write_evaluation_keys(tmp_path, [1])
    path = tmp_path / "parameters.json"
    content = json.loads(path.read_text()) | {"backend": "seal", "security_bits": 128}
    path.write_text(json.dumps(content))
    with pytest.raises(SecurityError, match="above the 109"):
        SealEvaluator.open(tmp_path)


def test_what_seal_itself_refuses_is_said() -> None:
    with pytest.raises((BackendError, PlanError)):
        SealHolder.create(Parameters(8192, 1, scale_bits=13, first_bits=60, special_bits=60))
