"""Two changes of one file: the second does not undo what the first did."""

from __future__ import annotations

from pathlib import Path

import pytest

from crypto import sm2
from crypto.errors import WriteError
from crypto.release import Release
from crypto.signer import SoftwareSigner, SoftwareUnwrapper
from engine.vqf import open_vqf, write_vqf
from engine.vqf.rewrap import rewrap_vqf
from engine.vqf.seal import seal_vqf
from engine.vqf.sign import sign_vqf
from engine.vqf.unlock import Unlock
from engine.vqf.wrap import SealFor
from tests.engine.vqf.tiny import CONFIG, PLAN, TOKENIZER, source

ALICE, BOB, CAROL = (sm2.private_key(bytes(31) + bytes([n])) for n in (3, 5, 7))
UNLOCK = Unlock((SoftwareUnwrapper(ALICE),))


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    plain, path = tmp_path / "plain.vqf", tmp_path / "sealed.vqf"
    write_vqf(plain, CONFIG, TOKENIZER, PLAN, source)
    with open_vqf(plain) as file:
        seal_vqf(file, path, SealFor((ALICE.public_key, BOB.public_key)))
    return path


def test_a_removed_recipient_does_not_come_back(sealed: Path) -> None:
    with open_vqf(sealed, UNLOCK) as first, open_vqf(sealed, UNLOCK) as second:
        rewrap_vqf(first, remove=[BOB.key_id])
        with pytest.raises(WriteError, match="replaced since"):
            rewrap_vqf(second, add=[CAROL.public_key])
    with open_vqf(sealed, UNLOCK) as file:
        assert file.seal is not None
        assert [recipient[0] for recipient in file.seal.recipients] == [ALICE.key_id]


def test_a_signature_is_not_lost(sealed: Path) -> None:
    with open_vqf(sealed, UNLOCK) as first, open_vqf(sealed, UNLOCK) as second:
        release = Release(first.model_digest, "tiny", 1, 0, None, (0, 1, 0))
        sign_vqf(first, [SoftwareSigner(BOB)], release)
        with pytest.raises(WriteError, match="replaced since"):
            sign_vqf(second, [SoftwareSigner(CAROL)], release)
    with open_vqf(sealed, UNLOCK) as file:
        assert [signed.sign1.key_id for signed in file.signatures] == [BOB.key_id]
        sign_vqf(file, [SoftwareSigner(CAROL)], release)
    with open_vqf(sealed, UNLOCK) as file:
        assert len(file.signatures) == 2


def test_a_file_that_is_gone(sealed: Path) -> None:
    with open_vqf(sealed, UNLOCK) as file:
        sealed.unlink()
        with pytest.raises(WriteError, match="No such file"):
            rewrap_vqf(file, remove=[BOB.key_id])
    assert not sealed.exists()
