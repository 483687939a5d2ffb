"""A model of several chunks in all forms, and others to take pieces from."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from crypto.kdf import hmac_sm3
from crypto.release import Release
from engine.vqf import open_vqf
from engine.vqf.seal import seal_vqf
from engine.vqf.sign import sign_vqf
from engine.vqf.wrap import SealFor
from tests.engine.vqf import chunky, vectors

PANELS, TOKENIZER_BYTES = 2 * 1024 + 3, chunky.MIB + 5


def signed_copy(plain: Path, target: Path, *signers: str) -> Path:
    """Copy a file and sign the copy."""
    shutil.copy(plain, target)
    with open_vqf(target) as file:
        release = Release(file.model_digest, "tiny", 3, 1_767_225_600, None, (0, 1, 0))
        sign_vqf(file, [vectors.signer(name) for name in signers], release)
    return target


def sealed_copy(source: Path, target: Path, *names: str) -> Path:
    """Seal a copy for keys."""
    with open_vqf(source) as file:
        seal_vqf(file, target, SealFor(tuple(vectors.key(name).public_key for name in names)))
    return target


@pytest.fixture
def quick_derivation(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long a passphrase takes does not matter to a test that uses this."""

    def derived(passphrase: bytes, salt: bytes, iterations: int, length: int) -> bytes:
        return hmac_sm3(passphrase, salt, iterations.to_bytes(8, "big"))[:length]

    monkeypatch.setattr("engine.vqf.wrap.pbkdf2_hmac_sm3", derived)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of files that no test changes.

    plain, signed; sealed: of signed; older: another seal of signed; other: another model of the
    same shape, signed and sealed for the same key. Embedding and tokenizer have three and two
    chunks, the last ones of one page.
    """
    folder = tmp_path_factory.mktemp("chunky")
    chunky.write(folder / "plain.vqf", PANELS, TOKENIZER_BYTES, seed="model")
    chunky.write(folder / "other-plain.vqf", PANELS, TOKENIZER_BYTES, seed="other")
    signed_copy(folder / "plain.vqf", folder / "signed.vqf", "signer_1")
    signed_copy(folder / "other-plain.vqf", folder / "other-signed.vqf", "signer_1")
    sealed_copy(folder / "signed.vqf", folder / "older.vqf", "alice", "bob")
    sealed_copy(folder / "signed.vqf", folder / "sealed.vqf", "alice", "bob")
    sealed_copy(folder / "other-signed.vqf", folder / "other.vqf", "alice")
    for path in folder.iterdir():
        path.chmod(0o400)
    return folder
