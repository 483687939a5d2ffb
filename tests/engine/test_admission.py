"""Whether an open file may be used: the trust file decides, and floors rise after a load."""

from __future__ import annotations

import base64
import tomllib
from pathlib import Path

import pytest

from crypto import sm2
from crypto.errors import PolicyError
from crypto.floors import FloorStore
from crypto.release import Release
from crypto.signer import SoftwareSigner, SoftwareUnwrapper
from crypto.trust import TrustFile
from engine.admission import DEV, WeightsPolicy, admit, record_load
from engine.model import Model
from engine.version import RUNTIME_VERSION
from engine.vqf import open_vqf
from engine.vqf.seal import seal_vqf
from engine.vqf.sign import sign_vqf
from engine.vqf.unlock import Unlock
from engine.vqf.wrap import SealFor
from tests.structure.source import CHECKOUT

NOW = 1_800_000_000
SIGNER = sm2.private_key(bytes(31) + b"\x05")
RECIPIENT = sm2.private_key(bytes(31) + b"\x07")
UNLOCK = Unlock((SoftwareUnwrapper(RECIPIENT),))


def trust(*, require_sealed: bool = True, minimum_release: int = 1) -> TrustFile:
    spki = base64.b64encode(SIGNER.public_key.spki_der()).decode()
    text = f"""version = 1
[policy]
require_sealed = {str(require_sealed).lower()}
[keys.supplier]
role = "weights"
public_key = "{spki}"
[lines.tiny]
signers = ["supplier"]
threshold = 1
minimum_release = {minimum_release}
"""
    return TrustFile.parse(text.encode())


def sign(path: Path, release: int, line: str = "tiny") -> None:
    with open_vqf(path) as file:
        made = Release(file.model_digest, line, release, NOW - 1, NOW + 1, RUNTIME_VERSION)
        sign_vqf(file, [SoftwareSigner(SIGNER)], made)


@pytest.fixture
def plain(tiny_vqf: Path, tmp_path: Path) -> Path:
    path = tmp_path / "model.vqf"
    path.write_bytes(tiny_vqf.read_bytes())
    return path


@pytest.fixture
def sealed(plain: Path) -> Path:
    """A signed and sealed file: release 3 of its line."""
    sign(plain, 3)
    path = plain.with_name("sealed.vqf")
    with open_vqf(plain) as file:
        seal_vqf(file, path, SealFor((RECIPIENT.public_key,)))
    return path


def reason(path: Path, policy: WeightsPolicy, now: int = NOW) -> str:
    with open_vqf(path, UNLOCK) as file, pytest.raises(PolicyError) as caught:
        admit(file, policy, now=now)
    return caught.value.reason


def test_nothing_is_admitted_without_a_trust_file(plain: Path, sealed: Path) -> None:
    for path in (plain, sealed):
        assert reason(path, WeightsPolicy()) == "no-trust"
        with open_vqf(path, UNLOCK) as file:
            assert admit(file, DEV, now=NOW) == ("dev", None)


def test_both_protections_are_asked_for(plain: Path, sealed: Path) -> None:
    with open_vqf(sealed, UNLOCK) as file:
        admission = admit(file, WeightsPolicy(trust()), now=NOW)
    assert admission.mode == "production"
    assert admission.verdict is not None
    assert admission.verdict.key_ids == (SIGNER.key_id,)
    assert reason(plain, WeightsPolicy(trust())) == "not-sealed"
    with open_vqf(plain) as file:
        admit(file, WeightsPolicy(trust(require_sealed=False)), now=NOW)


def test_a_cleared_flag_makes_an_unsigned_file(plain: Path, tiny_vqf: Path) -> None:
    """The plain form of a signed file is well formed, and the policy refuses it."""
    sign(plain, 3)
    plain.write_bytes(tiny_vqf.read_bytes())
    assert reason(plain, WeightsPolicy(trust(require_sealed=False))) == "not-signed"


def test_dates_and_lines(plain: Path) -> None:
    sign(plain, 3)
    policy = WeightsPolicy(trust(require_sealed=False))
    assert reason(plain, policy, NOW - 2) == "not-yet-valid"
    assert reason(plain, policy, NOW + 1) == "expired"
    assert reason(plain, WeightsPolicy(trust(require_sealed=False, minimum_release=4))) == (
        "release-too-old"
    )
    sign(plain, 4, "other")
    with open_vqf(plain) as file:
        admission = admit(file, policy, now=NOW)
    assert admission.verdict is not None
    assert admission.verdict.release is not None
    assert admission.verdict.release.line == "tiny"


def test_the_floor_rises_with_a_load_and_refuses_what_is_older(
    plain: Path, sealed: Path, tmp_path: Path
) -> None:
    store = FloorStore(tmp_path / "floors", create=True)
    policy = WeightsPolicy(trust(), floors=store)
    with Model(sealed, policy=policy, unlock=UNLOCK, now_unix_s=NOW, num_threads=1) as model:
        assert model.admission.verdict is not None
    assert store.read().release("tiny") == 3
    older = tmp_path / "older.vqf"
    sign(plain, 2)
    with open_vqf(plain) as file:
        seal_vqf(file, older, SealFor((RECIPIENT.public_key,)))
    assert reason(older, policy) == "release-too-old"
    with open_vqf(sealed, UNLOCK) as file:
        record_load(admit(file, policy, now=NOW), policy)
    assert store.read().release("tiny") == 3


def test_a_load_that_fails_does_not_raise_the_floor(sealed: Path, tmp_path: Path) -> None:
    store = FloorStore(tmp_path / "floors", create=True)
    data = bytearray(sealed.read_bytes())
    data[-5000] ^= 1
    sealed.write_bytes(data)
    with pytest.raises(Exception, match="does not have its tag"):
        Model(sealed, policy=WeightsPolicy(trust(), floors=store), unlock=UNLOCK, now_unix_s=NOW)
    assert store.read().is_new


def test_dev_leaves_the_floors_alone(plain: Path, tmp_path: Path) -> None:
    store = FloorStore(tmp_path / "floors", create=True)
    with Model(plain, policy=WeightsPolicy(floors=store, dev=True), num_threads=1):
        pass
    assert store.read().is_new


def test_the_runtime_knows_its_version() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    assert project["version"] == ".".join(map(str, RUNTIME_VERSION))
