"""SM2 of this package and of OpenSSL's command line, in both directions."""

from __future__ import annotations

import re

import pytest

from crypto.errors import InvalidSignatureError, InvalidTagError
from crypto.keys import load_private_key, write_private_key, write_public_key
from crypto.sm2 import (
    DEFAULT_ID,
    ciphertext_from_der,
    ciphertext_to_der,
    decrypt,
    encrypt,
    generate,
    private_key,
    sign,
    signature_from_der,
    signature_to_der,
    verify,
)
from tests.crypto.sm2_case import MESSAGES, both_providers, needs_openssl, openssl

pytestmark = needs_openssl

IDENTITIES = {"default": DEFAULT_ID, "empty": b"", "other": b"windhover@example.org"}
messages = pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
identities = pytest.mark.parametrize("identifier", IDENTITIES.values(), ids=IDENTITIES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("openssl")


@pytest.fixture(scope="module")
def key(folder):
    """A new key, and its files."""
    key = generate()
    write_private_key(folder / "key.pem", key, role="weights", passphrase=None)
    write_public_key(folder / "key.pub.pem", key.public_key, role="weights")
    return key


def digest_options(identifier):
    return ("-rawin", "-digest", "sm3", "-pkeyopt", "distid:" + identifier.decode("ascii"))


def openssl_signs(folder, message, *options):
    (folder / "message").write_bytes(message)
    inputs = ("-inkey", folder / "key.pem", "-in", folder / "message")
    return openssl("pkeyutl", "-sign", *options, *inputs).stdout


def openssl_verifies(folder, message, der, identifier):
    (folder / "message").write_bytes(message)
    (folder / "signature").write_bytes(der)
    run = openssl(
        "pkeyutl",
        "-verify",
        *digest_options(identifier),
        "-pubin",
        "-inkey",
        folder / "key.pub.pem",
        "-in",
        folder / "message",
        "-sigfile",
        folder / "signature",
        check=False,
    )
    return run.returncode == 0


@messages
@identities
@both_providers
def test_openssl_verifies_ours(folder, key, message, identifier, provider):
    signature = sign(key, message, identifier=identifier, use=provider)
    der = signature_to_der(signature)
    assert openssl_verifies(folder, message, der, identifier)
    assert not openssl_verifies(folder, message + b"!", der, identifier)
    assert not openssl_verifies(folder, message, der, b"somebody else")


@messages
@identities
def test_we_verify_openssls(folder, key, message, identifier):
    der = openssl_signs(folder, message, *digest_options(identifier))
    signature = signature_from_der(der)
    verify(key.public_key, message, signature, identifier=identifier)
    with pytest.raises(InvalidSignatureError):
        verify(key.public_key, message + b"!", signature, identifier=identifier)


@messages
def test_we_verify_what_dgst_signs(folder, key, message):
    (folder / "message").write_bytes(message)
    der = openssl(
        "dgst",
        "-sm3",
        "-sign",
        folder / "key.pem",
        "-sigopt",
        "distid:1234567812345678",
        folder / "message",
    ).stdout
    verify(key.public_key, message, signature_from_der(der))


@messages
def test_dgst_verifies_ours(folder, key, message):
    (folder / "message").write_bytes(message)
    (folder / "signature").write_bytes(signature_to_der(sign(key, message)))
    openssl(
        "dgst",
        "-sm3",
        "-verify",
        folder / "key.pub.pem",
        "-sigopt",
        "distid:1234567812345678",
        "-signature",
        folder / "signature",
        folder / "message",
    )


def test_without_an_identity_openssl_takes_its_default(folder, key):
    # Before version 4.0 that is the empty one, and such a signature is not one of ours.
    der = openssl_signs(folder, b"message", "-rawin", "-digest", "sm3")
    signature = signature_from_der(der)
    version = re.match(rb"OpenSSL (\d+)\.", openssl("version").stdout)
    if int(version[1]) >= 4:
        verify(key.public_key, b"message", signature)
    else:
        verify(key.public_key, b"message", signature, identifier=b"")
        with pytest.raises(InvalidSignatureError):
            verify(key.public_key, b"message", signature)


@pytest.mark.parametrize("length", [1, 32, 100, 200])
@both_providers
def test_we_decrypt_openssls(folder, key, length, provider):
    plaintext = bytes(i % 251 for i in range(length))
    (folder / "plain").write_bytes(plaintext)
    inputs = ("-pubin", "-inkey", folder / "key.pub.pem", "-in", folder / "plain")
    # One byte in 256 is masked with zero by OpenSSL, which the standard forbids and we refuse.
    for _ in range(3):
        der = openssl("pkeyutl", "-encrypt", *inputs).stdout
        try:
            assert decrypt(key, ciphertext_from_der(der), use=provider) == plaintext
        except InvalidTagError:
            assert length == 1
            continue
        return
    pytest.fail("three masks of zero in a row")


@pytest.mark.parametrize("length", [1, 32, 100, 200])
def test_openssl_decrypts_ours(folder, key, length):
    plaintext = bytes(i % 251 for i in range(length))
    (folder / "secret").write_bytes(ciphertext_to_der(encrypt(key.public_key, plaintext)))
    inputs = ("-inkey", folder / "key.pem", "-in", folder / "secret")
    assert openssl("pkeyutl", "-decrypt", *inputs).stdout == plaintext


def test_keys_and_signatures_with_leading_zeros(tmp_path, load_vectors):
    vectors = load_vectors("sm2.json")
    for i, vector in enumerate(vectors["leading_zeros"]):
        folder = tmp_path / str(i)
        folder.mkdir()
        key = private_key(bytes.fromhex(vector["private_key"]))
        write_private_key(folder / "key.pem", key, role="weights", passphrase=None)
        write_public_key(folder / "key.pub.pem", key.public_key, role="weights")
        message, signature = (bytes.fromhex(vector[name]) for name in ("message", "signature"))
        assert openssl_verifies(folder, message, signature_to_der(signature), DEFAULT_ID)
        der = openssl_signs(folder, message, *digest_options(DEFAULT_ID))
        verify(key.public_key, message, signature_from_der(der))
        openssl("pkey", "-in", folder / "key.pem", "-out", folder / "copy.pem")
        (folder / "copy.pem").chmod(0o600)
        copy = load_private_key(folder / "copy.pem", passphrase=None, role=None)
        assert copy.public_key == key.public_key


def test_ciphertexts_with_leading_zeros(folder, tmp_path, load_vectors):
    vectors = load_vectors("sm2.json")
    key = private_key(bytes.fromhex(vectors["standard"]["private_key"]))
    write_private_key(tmp_path / "key.pem", key, role="unseal", passphrase=None)
    for vector in vectors["ciphertexts_leading_zeros"]:
        (tmp_path / "secret").write_bytes(ciphertext_to_der(bytes.fromhex(vector["ciphertext"])))
        inputs = ("-inkey", tmp_path / "key.pem", "-in", tmp_path / "secret")
        assert openssl("pkeyutl", "-decrypt", *inputs).stdout.hex() == vector["plaintext"]
