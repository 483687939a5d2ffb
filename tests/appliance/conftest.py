"""A log, a key and a small model for tests of what an appliance says about its answers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from appliance.attestation import Attestor
from appliance.facts import Facts, facts_of
from appliance.log.anchor import FileAnchor
from appliance.log.create import create_log
from appliance.log.log import Log
from appliance.service.kernel_cache import prepare
from crypto import sm2
from crypto.signer import SoftwareSigner
from crypto.sm3 import sm3
from engine.admission import DEV
from engine.convert.convert import convert
from engine.model import Model
from tests.engine.convert.support import tiny_folder

if TYPE_CHECKING:
    from tests.appliance.service.live import Live

ISSUER = "appliance-7"
SOFTWARE = sm3(b"software")


@pytest.fixture(scope="session")
def tiny_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny Qwen2 checkpoint with a tokenizer of 419 tokens and a chat template, as VQF."""
    folder = tmp_path_factory.mktemp("tiny")
    convert(tiny_folder(folder / "qwen2_tiny", "qwen2_tiny"), folder / "tiny.vqf")
    return folder / "tiny.vqf"


@pytest.fixture(scope="session")
def prepared_kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of prepared kernels, which nobody may write; it takes half a minute."""
    folder = tmp_path_factory.mktemp("kernels") / "prepared"
    assert prepare(folder).is_new
    yield folder
    for path in (folder, *folder.rglob("*")):  # so that it can be removed
        path.chmod(path.stat().st_mode | 0o200)


@pytest.fixture(scope="session")
def embedding_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same checkpoint as one that makes vectors: the mean over the tokens of a text."""
    folder = tmp_path_factory.mktemp("embedding")
    source = tiny_folder(folder / "qwen2_tiny", "qwen2_tiny")
    (source / "1_Pooling").mkdir()
    (source / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    convert(source, folder / "embedding.vqf")
    return folder / "embedding.vqf"


@pytest.fixture(scope="session")
def tiny_model(tiny_file: Path) -> Iterator[Model]:
    """The same, ready to answer."""
    with Model(tiny_file, policy=DEV, num_threads=2, max_positions=512, max_rows=64) as model:
        yield model


@pytest.fixture(scope="session")
def live(tmp_path_factory: pytest.TempPathFactory, tiny_file: Path) -> Iterator[Live]:
    """A service with the tiny model, as a process: one for all tests that leave it as it is."""
    from tests.appliance.service.live import living  # few tests need the client libraries

    with living(tmp_path_factory.mktemp("live"), tiny_file) as started:
        yield started


@pytest.fixture
def facts(tiny_model: Model) -> Facts:
    """What is said of it."""
    return facts_of(tiny_model)


@pytest.fixture
def attest_signer() -> SoftwareSigner:
    """A new key."""
    return SoftwareSigner(sm2.generate())


@pytest.fixture
def open_log(tmp_path: Path, attest_signer: SoftwareSigner) -> Callable[[], Log]:
    """Start the log of this test, again if it was closed before."""
    folder, anchor = tmp_path / "log", FileAnchor(tmp_path / "anchor")
    create_log(folder, signer=attest_signer, issuer=ISSUER, anchor=anchor)
    return lambda: Log(folder, signer=attest_signer, issuer=ISSUER, anchor=anchor)


@pytest.fixture
def log(open_log: Callable[[], Log]) -> Iterator[Log]:
    """A log of its own for each test."""
    with open_log() as log:
        yield log


@pytest.fixture
def attestor(attest_signer: SoftwareSigner, log: Log, facts: Facts) -> Attestor:
    """Attests answers of the tiny model, by a clock that moves a millisecond with each look."""
    clock = itertools.count(1_764_460_800_000)
    return Attestor(
        attest_signer,
        log,
        facts,
        issuer=ISSUER,
        software=lambda: SOFTWARE,
        clock=lambda: next(clock),
    )
