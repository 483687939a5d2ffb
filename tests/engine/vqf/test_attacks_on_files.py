"""Headers, recipients and signatures of one file on another, forms changed, keys that are wrong."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from crypto.errors import KeyFileError, PolicyError
from crypto.trust import TrustFile
from engine.admission import WeightsPolicy, admit
from engine.errors import FormatError, WeightsError
from engine.vqf import open_vqf, outline
from engine.vqf.format import Form
from engine.vqf.unlock import Unlock
from engine.vqf.verify import verify_all
from tests.engine.vqf import second, vectors
from tests.engine.vqf.damage_forms import damaged_sealed
from tests.engine.vqf.holder import Holder
from tests.engine.vqf.vectors import DATA, FOR_KEYS, FOR_PASSPHRASE, PLAIN, SIGNED

ALICE = vectors.unlock("alice")
NOW = 1_800_000_000


@pytest.fixture
def holder(model: Path) -> Holder:
    return Holder(model / "sealed.vqf", ALICE)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "attacked.vqf"


def refusal(path: Path, unlock: Unlock = ALICE) -> str | None:
    """Return the rule, the comparison or the reason that refuses to open the file."""
    with pytest.raises((FormatError, WeightsError, KeyFileError)) as caught:
        open_vqf(path, unlock)
    error = caught.value
    if isinstance(error, FormatError):
        return error.rule
    return error.check if isinstance(error, WeightsError) else error.reason


def policy(*, require_sealed: bool = False) -> WeightsPolicy:
    """Return one that trusts the first signer for the line."""
    der = vectors.key("signer_1").public_key.spki_der()
    text = (
        "version = 1\n"
        f"[policy]\nrequire_signed = true\nrequire_sealed = {str(require_sealed).lower()}\n"
        f'[keys.one]\nrole = "weights"\npublic_key = "{base64.b64encode(der).decode()}"\n'
        '[lines.tiny]\nsigners = ["one"]\nthreshold = 1\n'
    )
    return WeightsPolicy(trust=TrustFile.parse(text.encode()))


def not_admitted(path: Path, asked: WeightsPolicy, unlock: Unlock = ALICE) -> str:
    """Open a file that is well formed and return why it is not admitted."""
    with open_vqf(path, unlock) as file:
        verify_all(file)
        with pytest.raises(PolicyError) as caught:
            admit(file, asked, now=NOW)
    return caught.value.reason


@pytest.mark.parametrize("name", ["signed.vqf", "sealed.vqf"])
def test_the_files_themselves_are_admitted(model: Path, name: str) -> None:
    with open_vqf(model / name, ALICE) as file:
        admission = admit(file, policy(), now=NOW)
    assert admission.verdict is not None
    assert admission.verdict.key_ids == (vectors.key("signer_1").key_id,)


def test_signed_flag_cleared_and_tail_cut(target: Path) -> None:
    """What is left is a whole plain file, byte for byte: nobody but the policy can refuse it."""
    raw = bytearray((DATA / SIGNED).read_bytes())
    raw[12] = 1
    target.write_bytes(raw)
    assert refusal(target) == "R10"
    raw[64:72] = bytes(8)
    target.write_bytes(raw)
    assert refusal(target) == "R12"
    del raw[32_768:]
    target.write_bytes(raw)
    assert refusal(target) == "R7"
    raw[24:32] = (32_768).to_bytes(8, "little")
    target.write_bytes(raw)
    assert bytes(raw) == (DATA / PLAIN).read_bytes()
    with open_vqf(target) as file:
        assert file.form is Form.PLAIN
    assert not_admitted(target, policy()) == "not-signed"


def test_sealed_flag_cleared(target: Path) -> None:
    """Step by step to a plain file: in the end the cipher text is no manifest."""
    raw = bytearray((DATA / FOR_KEYS).read_bytes())
    expected = []
    for at, value in (
        (12, b"\1"),  # the form
        (16, b"\0"),  # the suite
        (80, bytes(16)),  # the counter
        (40, bytes(8)),  # the tag table
        (64, bytes(8)),  # the signatures
        (48, (4096).to_bytes(8, "little")),  # the data where it would be
        (56, (49_152 - 4096).to_bytes(8, "little")),
    ):
        raw[at : at + len(value)] = value
        target.write_bytes(raw)
        expected.append(refusal(target))
    assert expected == ["R5", "R6", "R9", "R10", "R11", "R12", "R14"]
    length = int.from_bytes(raw[32:40], "little")
    raw[96:128] = second.sm3(second.label("manifest") + bytes(raw[128 : 128 + length]))
    target.write_bytes(raw)
    assert refusal(target) == "R15"


def test_signatures_taken_out_by_a_recipient(holder: Holder, target: Path) -> None:
    holder.rewrite_manifest(holder.parts.manifest, b"")
    assert not_admitted(holder.save(target), policy()) == "not-signed"


def test_unsealed_by_a_recipient(model: Path, target: Path) -> None:
    """The signatures hold for the plain data too; that it has to be sealed is the policy's."""
    assert not_admitted(model / "signed.vqf", policy(require_sealed=True)) == "not-sealed"


def test_signatures_of_another_model(holder: Holder, target: Path, model: Path) -> None:
    other = Holder(model / "other.vqf", ALICE)
    holder.rewrite_manifest(holder.parts.manifest, other.parts.signatures)
    assert refusal(holder.save(target)) == "S5"
    signed, strange = ((model / f"{n}signed.vqf").read_bytes() for n in ("", "other-"))
    length = int.from_bytes(signed[64:72], "little")
    assert len(signed) == len(strange)
    target.write_bytes(signed[:-length] + strange[-length:])
    assert refusal(target) == "S5"


@pytest.mark.parametrize(
    ("end", "check"), [(128, "V2"), (16_512, "V2"), (16_544, "V3")], ids=["preamble", "all", "tag"]
)
@pytest.mark.parametrize("donor", ["older.vqf", "other.vqf"])
def test_header_of_another_file(
    holder: Holder, target: Path, model: Path, donor: str, end: int, check: str
) -> None:
    """Preamble, recipients and header tag of another file for the same key, up to `end`."""
    other = (model / donor).read_bytes()
    holder.raw[:end] = other[:end]
    assert refusal(holder.save(target)) == check


def test_manifest_of_an_older_seal(holder: Holder, target: Path, model: Path) -> None:
    older = (model / "older.vqf").read_bytes()
    holder.raw[16_544 : holder.table_start] = older[16_544 : holder.table_start]
    assert refusal(holder.save(target)) == "V3"


@pytest.mark.parametrize("donor", ["older.vqf", "other.vqf"])
def test_recipients_of_another_file(holder: Holder, target: Path, model: Path, donor: str) -> None:
    other = (model / donor).read_bytes()
    holder.raw[128:16_512] = other[128:16_512]
    assert refusal(holder.save(target)) == "V2"


def test_passphrase_recipients_of_another_file(target: Path) -> None:
    """An attacker's own passphrase opens his recipients' area, but not under this file id."""
    raw = bytearray((DATA / FOR_KEYS).read_bytes())
    raw[128:16_512] = (DATA / FOR_PASSPHRASE).read_bytes()[128:16_512]
    target.write_bytes(raw)
    assert refusal(target, vectors.unlock("passphrase")) == "V1"
    raw[96:128] = (DATA / FOR_PASSPHRASE).read_bytes()[96:128]
    target.write_bytes(raw)
    assert refusal(target, vectors.unlock("passphrase")) == "V2"


def test_recipient_added_by_a_stranger(target: Path) -> None:
    """Somebody without the data key can encrypt one of his own for a recipient."""
    raw = (DATA / FOR_KEYS).read_bytes()
    parts = second.taken_apart(raw, vectors.data_key(FOR_KEYS))
    numbers = [(vectors.key("alice").public_key, 7)]
    forged = second.key_recipients(bytes(32), numbers)
    area = (len(forged).to_bytes(4, "little") + forged).ljust(16_384, b"\0")
    target.write_bytes(raw[:128] + area + raw[16_512:])
    assert refusal(target) == "V2"
    parts.recipients, parts.data_key = forged, bytes(32)
    parts.__dict__.pop("derived")
    remade = parts.built()
    target.write_bytes(remade[:16_544] + raw[16_544:])
    assert refusal(target) == "V3"  # a header under his key, the rest under the true one


@pytest.mark.parametrize("at", [96, 127])
def test_file_id_changed(holder: Holder, target: Path, at: int) -> None:
    holder.raw[at] ^= 1
    assert refusal(holder.save(target)) == "V2"
    holder.retag_header()  # under the keys of the old one
    assert refusal(holder.save(target)) == "V2"
    changed = second.Sealed(holder.data_key, holder.file_id, b"", b"", b"", b"", b"")
    head = bytes(holder.raw[: second.HEADER_TAG])
    holder.raw[second.HEADER_TAG : second.MANIFEST] = changed.header_tag(head)
    assert refusal(holder.save(target)) == "V3"


def test_counter_start_changed(holder: Holder, target: Path) -> None:
    holder.raw[95] ^= 1
    assert refusal(holder.save(target)) == "V2"
    holder.retag_header()
    assert refusal(holder.save(target)) == "V3"


@pytest.mark.parametrize("iterations", [0, 1, 599_999, 10_000_001, 2**32, 2**64 - 1, -1])
def test_nothing_is_derived_with_iterations_out_of_range(
    target: Path, monkeypatch: pytest.MonkeyPatch, iterations: int
) -> None:
    """One would open the way to guessing, the other would keep the machine busy for hours."""

    def derived(*_arguments: object) -> bytes:
        pytest.fail("PBKDF2 was called")

    monkeypatch.setattr("engine.vqf.wrap.pbkdf2_hmac_sm3", derived)
    edit = {"recipient": ["passphrase", "iterations"], "to": iterations}
    raw = (DATA / FOR_PASSPHRASE).read_bytes()
    target.write_bytes(damaged_sealed(raw, vectors.data_key(FOR_PASSPHRASE), [edit]))
    assert refusal(target, vectors.unlock("passphrase")) == "E3"
    with pytest.raises(FormatError) as caught:
        outline(target)
    assert caught.value.rule == "E3"


def test_nothing_is_derived_before_the_rules_of_the_preamble(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []
    monkeypatch.setattr("engine.vqf.wrap.pbkdf2_hmac_sm3", lambda *a: calls.append(a))
    target.write_bytes((DATA / FOR_PASSPHRASE).read_bytes() + b"\0")
    assert refusal(target, vectors.unlock("passphrase")) == "R7"
    assert not calls


def test_nothing_is_decrypted_before_its_tag(
    holder: Holder, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A manifest, and a batch of chunks, that do not have their tags never reach the cipher."""
    holder.raw[holder.span(1).start] ^= 1
    with open_vqf(holder.save(target), ALICE) as file:

        def decrypted(*_arguments: object) -> list[bytes]:
            pytest.fail("the cipher was called")

        monkeypatch.setattr(type(file.bulk), "sm4_ctr_sm3_many", decrypted)
        chunk = file._chunks["embedding"][1]
        memory = memoryview(bytearray(chunk.length))
        with pytest.raises(WeightsError) as caught:
            file.source().fetch([chunk], [memory], file.bulk)
        assert caught.value.check == "V5"
    holder.raw[second.MANIFEST] ^= 1
    monkeypatch.setattr("engine.vqf.suite.ctr", decrypted)
    assert refusal(holder.save(target)) == "V3"


def test_a_stranger_learns_only_the_outline(model: Path) -> None:
    """Neither names nor architecture nor tokenizer nor signers stand in the file in clear."""
    for path in (model / "sealed.vqf", DATA / FOR_KEYS, DATA / FOR_PASSPHRASE):
        raw = path.read_bytes()
        for word in (b"llama", b"config", b"embedding", b"layers", b"windhover", b"message"):
            assert word not in raw
        for name in ("signer_1", "signer_2"):
            assert vectors.key(name).key_id not in raw
    seen = outline(model / "sealed.vqf")
    assert seen.preamble.form is Form.SEALED
    assert isinstance(seen.recipients, tuple)
    known = {vectors.key(name).key_id for name in ("alice", "bob")}
    assert {recipient.key_id for recipient in seen.recipients} == known
