"""A file through any sequence of sign, seal, rewrap and seal anew: one model, one data area."""

from __future__ import annotations

import hashlib
import stat
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from crypto import sm2
from crypto.errors import KeyFileError
from crypto.release import Release
from crypto.signer import SoftwareSigner, SoftwareUnwrapper
from engine.errors import ConfigError, UnsupportedError, WeightsError
from engine.vqf import VqfFile, open_vqf
from engine.vqf.format import Form
from engine.vqf.recipients import PassphraseRecipient
from engine.vqf.rewrap import rewrap_vqf
from engine.vqf.seal import seal_vqf
from engine.vqf.sign import sign_vqf
from engine.vqf.unlock import Unlock
from engine.vqf.verify import verify_all
from engine.vqf.wrap import SealFor
from tests.engine.vqf import vectors
from tests.engine.vqf.vectors import DATA, FOR_KEYS, FOR_PASSPHRASE, PLAIN, SIGNED

pytestmark = pytest.mark.usefixtures("quick_derivation")

PEOPLE = ("alice", "bob", "stranger")
SECRET = b"a passphrase"
PLAIN_BYTES = (DATA / PLAIN).read_bytes()
MODEL_DIGEST = PLAIN_BYTES[96:128]

people = st.sets(st.sampled_from(PEOPLE), min_size=1)
operations = st.one_of(
    st.tuples(
        st.just("sign"),
        st.sampled_from(["signer_1", "signer_2"]),
        st.integers(1, 2),
        st.sampled_from(["tiny", "other-line"]),
    ),
    st.tuples(st.just("seal"), people | st.just(None)),
    st.tuples(st.just("rewrap"), people | st.just(None)),
    st.tuples(
        st.just("change"), st.sets(st.sampled_from(PEOPLE)), st.sets(st.sampled_from(PEOPLE))
    ),
)


def release(line: str = "tiny", number: int = 1) -> Release:
    return Release(MODEL_DIGEST, line, number, 0, None, (0, 1, 0))


def public(name: str) -> sm2.PublicKey:
    return vectors.key(name).public_key


def seal_for(names: set[str] | None) -> SealFor:
    if names is None:
        return SealFor(passphrase=SECRET)
    return SealFor(tuple(public(name) for name in sorted(names)))


@dataclass
class Expected:
    """What the file should be: its form, who opens it, who has signed what."""

    form: Form = Form.PLAIN
    readers: set[str] | None = field(default_factory=set)
    signed: set[tuple[str, str, int]] = field(default_factory=set)

    def unlock(self) -> Unlock:
        if self.form is not Form.SEALED:
            return Unlock()
        if self.readers is None:
            return Unlock(passphrase=SECRET)
        return Unlock((vectors.remembering(min(self.readers)),))


def applied(path: Path, now: Expected, operation: tuple[object, ...]) -> None:
    """Do one thing to the file and to what is expected of it."""
    with open_vqf(path, now.unlock()) as file:
        match operation:
            case "sign", str(signer), int(number), str(line):
                sign_vqf(file, [vectors.signer(signer)], release(line, number))
                kept = {s for s in now.signed if s[1] != line or s[2] == number}
                now.signed = kept | {(signer, line, number)}
                now.form = Form.SIGNED if now.form is Form.PLAIN else now.form
            case "seal", names:
                seal_vqf(file, path, seal_for(names), force=True)
                now.form, now.readers = Form.SEALED, names
            case "rewrap", names:
                if now.form is not Form.SEALED:
                    with pytest.raises(UnsupportedError):
                        rewrap_vqf(file, recipients=seal_for(names))
                    return
                rewrap_vqf(file, recipients=seal_for(names))
                now.readers = names
            case "change", set(added), set(removed):
                _changed(file, now, added, removed)


def _changed(file: VqfFile, now: Expected, added: set[str], removed: set[str]) -> None:
    add = [public(name) for name in added]
    remove = [public(name).key_id for name in removed]
    if now.form is not Form.SEALED:
        with pytest.raises(UnsupportedError):
            rewrap_vqf(file, add=add, remove=remove)
        return
    readers = now.readers
    impossible = readers is None or not removed <= readers or not (readers - removed) | added
    if impossible or not added | removed:
        with pytest.raises(ConfigError):
            rewrap_vqf(file, add=add, remove=remove)
        return
    assert readers is not None
    rewrap_vqf(file, add=add, remove=remove)
    now.readers = (readers - removed) | added


def check(path: Path, now: Expected) -> None:
    """Open the file as everybody, and compare all of it with what is expected."""
    with open_vqf(path, now.unlock()) as file:
        assert file.form is now.form
        assert file.model_digest == MODEL_DIGEST
        names = {vectors.key(name).key_id: name for name in ("signer_1", "signer_2")}
        found = [
            (names[s.sign1.key_id], s.release.line, s.release.release) for s in file.signatures
        ]
        assert len(found) == len(set(found))
        assert set(found) == now.signed
        for signed in file.signatures:
            signed.sign1.verify(public(names[signed.sign1.key_id]), typ="windhover/release;v=1")
        verify_all(file)
        data = b"".join(file.read_extent(e.name).tobytes() for e in file.manifest.extents)
        assert data == PLAIN_BYTES[4096:]
    if now.form is not Form.SEALED:
        return
    for name in PEOPLE:
        unlock = Unlock((vectors.remembering(name),))
        if now.readers is not None and name in now.readers:
            open_vqf(path, unlock).close()
        else:
            with pytest.raises(KeyFileError) as caught:
                open_vqf(path, unlock)
            assert caught.value.reason == ("missing" if now.readers is None else "recipient")


def secrets_of(path: Path, now: Expected) -> tuple[bytes, bytes, bytes, bytes, bytes] | None:
    """Return data key, file id, counter start, tags and cipher text of a sealed file."""
    if now.form is not Form.SEALED:
        return None
    with open_vqf(path, now.unlock()) as file:
        assert file.seal is not None
        preamble, seal = file.preamble, file.seal
        data = path.read_bytes()[preamble.data_offset :]
        return seal.data_key, seal.keys.file_id, preamble.counter_start, seal.tags, data


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15)
@given(sequence=st.lists(operations, min_size=1, max_size=7))
@example(
    sequence=[
        ("sign", "signer_1", 1, "tiny"),
        ("seal", {"alice"}),
        ("sign", "signer_2", 1, "tiny"),
        ("change", {"bob"}, {"alice"}),
        ("seal", {"bob", "stranger"}),
        ("rewrap", None),
        ("sign", "signer_1", 2, "tiny"),
    ]
)
def test_any_sequence(tmp_path: Path, sequence: list[tuple[object, ...]]) -> None:
    path = tmp_path / "model.vqf"
    path.write_bytes(PLAIN_BYTES)
    path.chmod(0o640)
    now = Expected()
    for operation in sequence:
        before = secrets_of(path, now)
        applied(path, now, operation)
        check(path, now)
        after = secrets_of(path, now)
        if before is None or after is None:
            continue
        same = [old == new for old, new in zip(before, after, strict=True)]
        if operation[0] == "seal":  # everything is new
            assert same == [False] * 5
        elif operation[0] == "sign":  # only the counter of the manifest is
            assert same == [True, True, False, True, True]
        else:
            assert same == [True] * 5
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.vqf"]
    if not any(operation[0] == "seal" for operation in sequence):
        assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize("name", [FOR_KEYS, FOR_PASSPHRASE])
def test_rewrap_changes_nothing_but_the_recipients(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes((DATA / FOR_KEYS).read_bytes())
    before = path.read_bytes()
    recipients = seal_for({"stranger"} if name == FOR_KEYS else None)
    with open_vqf(path, vectors.unlock()) as file:
        rewrap_vqf(file, recipients=recipients)
    after = path.read_bytes()
    assert before[:128] == after[:128]
    assert before[128:16_512] != after[128:16_512]
    assert before[16_512:16_544] != after[16_512:16_544]
    assert before[16_544:] == after[16_544:]


def test_a_removed_recipient_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "sealed.vqf"
    path.write_bytes((DATA / FOR_KEYS).read_bytes())
    old = path.read_bytes()
    with open_vqf(path, vectors.unlock("bob")) as file:
        remaining = rewrap_vqf(file, remove=[vectors.key("alice").key_id])
    assert not isinstance(remaining, PassphraseRecipient)
    assert [recipient.key_id for recipient in remaining] == [vectors.key("bob").key_id]
    with pytest.raises(KeyFileError) as caught:
        open_vqf(path, vectors.unlock("alice"))
    assert caught.value.reason == "recipient"
    # and he cannot put his old recipients' area into the new file: the header tag covers both
    forged = bytearray(path.read_bytes())
    forged[128:16_544] = old[128:16_544]
    assert bytes(forged) == old, "data key and file id are those of before, as section 8 says"


def test_a_head_from_before_a_signature(tmp_path: Path) -> None:
    """Preamble and recipients of then do not fit the manifest of now, though the keys do."""
    path = tmp_path / "sealed.vqf"
    path.write_bytes((DATA / FOR_KEYS).read_bytes())
    with open_vqf(path, vectors.unlock()) as file:
        sign_vqf(file, [vectors.signer("stranger")], release("other-line"))
    mixed = bytearray(path.read_bytes())
    mixed[:16_544] = (DATA / FOR_KEYS).read_bytes()[:16_544]
    path.write_bytes(mixed)
    with pytest.raises(WeightsError) as caught:
        open_vqf(path, vectors.unlock())
    assert caught.value.check == "V3"


def new_keys(count: int) -> list[sm2.PrivateKey]:
    seeds = (hashlib.sha256(b"key %d" % number).digest() for number in range(count))
    return [sm2.private_key(b"\x01" + seed[1:]) for seed in seeds]


def test_64_recipients_and_no_more(tmp_path: Path) -> None:
    keys = new_keys(65)
    path = tmp_path / "sealed.vqf"
    with open_vqf(DATA / PLAIN) as file:
        with pytest.raises(ConfigError, match="64"):
            seal_vqf(file, path, SealFor(tuple(key.public_key for key in keys)))
        assert not path.exists()
        seal_vqf(file, path, SealFor(tuple(key.public_key for key in keys[:64])))
    for key in (keys[0], keys[63]):
        with open_vqf(path, Unlock((SoftwareUnwrapper(key),))) as file:
            verify_all(file)
    with pytest.raises(KeyFileError):
        open_vqf(path, Unlock((SoftwareUnwrapper(keys[64]),)))
    before = path.read_bytes()
    with open_vqf(path, Unlock((SoftwareUnwrapper(keys[5]),))) as file:
        with pytest.raises(ConfigError, match="65"):
            rewrap_vqf(file, add=[keys[64].public_key])
        assert path.read_bytes() == before
        rewrap_vqf(file, add=[keys[64].public_key], remove=[keys[5].key_id])
    open_vqf(path, Unlock((SoftwareUnwrapper(keys[64]),))).close()


@pytest.mark.parametrize("form", [Form.SIGNED, Form.SEALED])
def test_16_signatures_and_no_more(tmp_path: Path, form: Form) -> None:
    path = tmp_path / "model.vqf"
    path.write_bytes((DATA / (PLAIN if form is Form.SIGNED else FOR_KEYS)).read_bytes())
    keys = new_keys(16)
    room = 16 if form is Form.SIGNED else 14  # two are there already, of another line
    with open_vqf(path, vectors.unlock()) as file:
        signers = [SoftwareSigner(key) for key in keys]
        sign_vqf(file, signers[:room], release("other-line"))
    before = path.read_bytes()
    with open_vqf(path, vectors.unlock()) as file:
        assert len(file.signatures) == 16
        verify_all(file)
        with pytest.raises(ValueError, match="16"):
            sign_vqf(file, [vectors.signer("stranger")], release("other-line"))
    assert path.read_bytes() == before


def test_signing_for_another_model(tmp_path: Path) -> None:
    path = tmp_path / "model.vqf"
    path.write_bytes(PLAIN_BYTES)
    wrong = Release(bytes(32), "tiny", 1, 0, None, (0, 1, 0))
    with open_vqf(path) as file, pytest.raises(ValueError, match="another model"):
        sign_vqf(file, [vectors.signer("signer_1")], wrong)
    assert path.read_bytes() == PLAIN_BYTES


def test_the_signed_form_is_the_plain_one_and_a_tail(tmp_path: Path) -> None:
    path = tmp_path / "model.vqf"
    path.write_bytes(PLAIN_BYTES)
    with open_vqf(path) as file:
        sign_vqf(file, [vectors.signer("signer_1")], release())
    raw = path.read_bytes()
    assert raw[128:32_768] == PLAIN_BYTES[128:]
    assert raw[80:128] == PLAIN_BYTES[80:128]
    assert (DATA / SIGNED).read_bytes()[128:32_768] == PLAIN_BYTES[128:]
