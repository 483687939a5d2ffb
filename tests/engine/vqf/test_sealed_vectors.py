"""Fixed signed and sealed files: the library and the second implementation agree on every value."""

from __future__ import annotations

import json

import pytest

from crypto import sm2
from crypto.errors import InvalidSignatureError
from crypto.release import RELEASE_TYPE
from engine.vqf import open_vqf
from engine.vqf.fetch import Seal
from engine.vqf.format import Form
from engine.vqf.recipients import KeyRecipient, PassphraseRecipient, encode_recipients
from engine.vqf.suite import derive_keys
from engine.vqf.verify import verify_all
from engine.vqf.wrap import passphrase_keys, wrap_tag
from tests.engine.vqf import make_sealed_vectors, second, tiny, vectors
from tests.engine.vqf.vectors import DATA, FOR_KEYS, FOR_PASSPHRASE, PROTECTED, SIGNED

SEALED = (FOR_KEYS, FOR_PASSPHRASE)


def seal_of(name: str) -> Seal:
    """Return what the library has when a file is open."""
    with open_vqf(DATA / name, vectors.unlock(vectors.OPENS[name])) as file:
        assert file.seal is not None
        return file.seal


def test_they_can_be_made_again() -> None:
    for name, content in make_sealed_vectors.files().items():
        assert (DATA / name).read_bytes() == content, name
    assert make_sealed_vectors.document() == vectors.numbers()


@pytest.mark.parametrize(
    ("name", "unlock"),
    [(SIGNED, "nothing"), (FOR_KEYS, "alice"), (FOR_KEYS, "bob"), (FOR_PASSPHRASE, "passphrase")],
)
def test_they_are_the_example(name: str, unlock: str) -> None:
    """Every form has the example's identity, configuration and data."""
    with (
        open_vqf(DATA / "tiny.vqf") as plain,
        open_vqf(DATA / name, vectors.unlock(unlock)) as file,
    ):
        assert file.form is (Form.SIGNED if name == SIGNED else Form.SEALED)
        assert file.model_digest == plain.model_digest
        assert file.manifest == plain.manifest
        for extent in plain.manifest.extents:
            expected = plain.read_extent(extent.name)
            assert file.read_extent(extent.name).tobytes() == expected.tobytes()
        assert file.read_bytes("template") == tiny.TEMPLATE
        verify_all(file)


@pytest.mark.parametrize("name", [SIGNED, FOR_KEYS])
def test_signatures_verify(name: str) -> None:
    with open_vqf(DATA / name, vectors.unlock()) as file:
        assert len(file.signatures) == 2
        for signed in file.signatures:
            assert signed.release.line == "tiny"
            assert (signed.release.release, signed.release.supersedes) == (3, (1,))
            results = []
            for signer in ("signer_1", "signer_2"):
                public: sm2.PublicKey = vectors.key(signer).public_key
                try:
                    signed.sign1.verify(public, typ=RELEASE_TYPE)
                    results.append(public.key_id == signed.sign1.key_id)
                except InvalidSignatureError:
                    results.append(public.key_id != signed.sign1.key_id)
            assert results == [True, True]


def test_without_signatures_there_are_none() -> None:
    with open_vqf(DATA / FOR_PASSPHRASE, vectors.unlock("passphrase")) as file:
        assert file.signatures == ()
        assert file.preamble.signatures_length == 0


@pytest.mark.parametrize("name", SEALED)
def test_derived_keys(name: str) -> None:
    known = vectors.of(name)
    keys = derive_keys(bytes.fromhex(known["data_key"]), bytes.fromhex(known["file_id"]))
    found = {name: getattr(keys, name).hex() for name in known["derived"]}
    assert found == known["derived"]
    assert len(set(known["derived"].values())) == 4
    assert seal_of(name).keys == keys


@pytest.mark.parametrize("name", SEALED)
def test_tags_and_cipher_text(name: str) -> None:
    """What the library computes is what stands in the file and in sealed.json."""
    known, raw = vectors.of(name), (DATA / name).read_bytes()
    unlock = vectors.unlock(vectors.OPENS[name])
    with open_vqf(DATA / name, unlock) as file:
        assert file.seal is not None
        keys, preamble = file.seal.keys, file.preamble
        manifest = file.manifest.encode()
        tags = file.seal.tags
        section = raw[16_544 : 16_544 + preamble.manifest_length + preamble.signatures_length]
    assert keys.header_tag(raw[:16_512]).hex() == known["header_tag"] == raw[16_512:16_544].hex()
    assert preamble.counter_start.hex() == known["counter_start"]
    assert keys.crypt_manifest(preamble.counter_start, section)[: len(manifest)] == manifest
    end = 16_544 + len(section)
    expected = keys.manifest_tag(
        preamble.counter_start, preamble.manifest_length, preamble.signatures_length, section
    )
    assert expected.hex() == known["manifest_tag"] == raw[end : end + 32].hex()
    assert tags == b"".join(map(bytes.fromhex, known["chunk_tags"])) == raw[end + 32 : end + 192]
    first = raw[preamble.data_offset : preamble.data_offset + 4096]
    assert second.sm3(first).hex() == known["sm3_of_first_sealed_chunk"]


def test_counter_wraps_around() -> None:
    """The counter of this file passes 2^128 - 1 inside the manifest."""
    start = int(vectors.of(FOR_KEYS)["counter_start"], 16)
    assert start + 3 > 1 << 128


def test_recipients_area() -> None:
    """The library's encoding of the same recipients is the one in the file."""
    for name, kind in ((FOR_KEYS, tuple), (FOR_PASSPHRASE, PassphraseRecipient)):
        recipients = seal_of(name).recipients
        assert isinstance(recipients, kind)
        raw = (DATA / name).read_bytes()
        assert encode_recipients(recipients) == raw[128:16_512]
    keys = seal_of(FOR_KEYS).recipients
    assert {r.key_id for r in keys if isinstance(r, KeyRecipient)} == {
        vectors.key(name).key_id for name in ("alice", "bob")
    }


def test_passphrase_values() -> None:
    known = vectors.of(FOR_PASSPHRASE)
    salt, iterations = bytes.fromhex(known["salt"]), known["iterations"]
    cipher_key, tag_key = passphrase_keys(vectors.passphrase(), salt, iterations)
    assert cipher_key.hex() == known["wrap_cipher"]
    assert tag_key.hex() == known["wrap_key"]
    file_id, wrapped = bytes.fromhex(known["file_id"]), bytes.fromhex(known["wrapped"])
    assert wrap_tag(tag_key, file_id, salt, iterations, wrapped).hex() == known["tag"]
    assert second.ctr(cipher_key, 0, wrapped) == vectors.data_key(FOR_PASSPHRASE)


def test_taken_apart_and_put_together() -> None:
    """The damages of other tests start from this: without a damage nothing changes."""
    for name in SEALED:
        raw = (DATA / name).read_bytes()
        assert second.taken_apart(raw, vectors.data_key(name)).built() == raw


def test_keys_are_marked_as_public() -> None:
    text = (DATA / "sealed.json").read_text(encoding="utf-8")
    assert "FOR TESTS ONLY" in json.loads(text)["warning"]
    for name, key in vectors.numbers()["keys"].items():
        assert vectors.key(name).public_key.to_bytes().hex() == key["public"]
        assert vectors.key(name).key_id.hex() == key["key_id"]
    assert len(PROTECTED) == len(vectors.numbers()["files"])
