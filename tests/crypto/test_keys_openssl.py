"""Key files of this package and of OpenSSL's command line, in both directions."""

from __future__ import annotations

import pytest

from crypto.errors import KeyFileError
from crypto.keys import load_private_key, load_public_key, write_private_key, write_public_key
from crypto.pkcs8 import encode_pkcs8
from crypto.sm2 import generate
from tests.crypto.sm2_case import needs_openssl, openssl

pytestmark = needs_openssl
PASSPHRASE = b"correct horse"
PASS_IN, PASS_OUT = ("-passin", "stdin"), ("-passout", "stdin")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("keys")


@pytest.fixture(scope="module")
def key(folder):
    """A new key in files of ours: plain, encrypted, public."""
    key = generate()
    write_private_key(folder / "plain.pem", key, role="weights", passphrase=None)
    write_private_key(folder / "encrypted.pem", key, role="weights", passphrase=PASSPHRASE)
    write_public_key(folder / "public.pem", key.public_key, role="weights")
    return key


def load(folder, data, passphrase=None):
    """Return the key in bytes that OpenSSL wrote."""
    path = folder / "written.pem"
    path.write_bytes(data)
    path.chmod(0o600)
    return load_private_key(path, passphrase=passphrase, role="weights")


def test_openssl_reads_ours(folder, key):
    pkcs8 = ("pkcs8", "-topk8", "-nocrypt", "-outform", "DER")
    plain = openssl(*pkcs8, "-in", folder / "plain.pem").stdout
    opened = openssl(*pkcs8, "-in", folder / "encrypted.pem", *PASS_IN, input=PASSPHRASE).stdout
    assert plain == opened == encode_pkcs8(key)
    public = openssl("pkey", "-pubin", "-in", folder / "public.pem", "-outform", "DER").stdout
    assert public == key.public_key.spki_der()
    derived = openssl("pkey", "-in", folder / "plain.pem", "-pubout", "-outform", "DER").stdout
    assert derived == key.public_key.spki_der()
    openssl("pkey", "-in", folder / "plain.pem", "-check", "-noout")


def test_openssl_refuses_the_wrong_passphrase(folder, key):
    arguments = ("pkey", "-in", folder / "encrypted.pem", *PASS_IN, "-noout")
    assert openssl(*arguments, input=b"wrong", check=False).returncode != 0


def test_we_read_what_openssl_copies(folder, key):
    plain = openssl("pkey", "-in", folder / "plain.pem").stdout
    assert load(folder, plain).public_key == key.public_key
    public = openssl("pkey", "-in", folder / "plain.pem", "-pubout").stdout
    assert load_public_key(public, role="weights") == key.public_key


GENERATE = {
    "EC": ("EC", "-pkeyopt", "ec_paramgen_curve:SM2", "-pkeyopt", "ec_param_enc:named_curve"),
    "SM2": ("SM2",),
}


@pytest.mark.parametrize("options", GENERATE.values(), ids=GENERATE)
def test_we_read_what_openssl_makes(folder, options):
    data = openssl("genpkey", "-algorithm", *options).stdout
    key = load(folder, data)
    der = openssl("pkey", "-in", folder / "written.pem", "-pubout").stdout
    assert load_public_key(der, role=None) == key.public_key


SCHEMES = {
    "default": (),
    "AES-256": ("-v2", "aes-256-cbc", "-v2prf", "hmacWithSHA256", "-iter", "100000"),
    "AES-128": ("-v2", "aes-128-cbc"),
    "SM4": ("-v2", "sm4-cbc"),
}


@pytest.mark.parametrize("options", SCHEMES.values(), ids=SCHEMES)
def test_we_read_what_openssl_encrypts(folder, key, options):
    data = openssl(
        "pkcs8", "-topk8", "-in", folder / "plain.pem", *options, *PASS_OUT, input=PASSPHRASE
    ).stdout
    assert load(folder, data, PASSPHRASE).public_key == key.public_key
    with pytest.raises(KeyFileError) as caught:
        load(folder, data, b"wrong")
    assert caught.value.reason == "passphrase"


def test_hmac_sm3_where_openssl_knows_it(folder, key):
    # Unknown to OpenSSL 3.0 on its command line, so nothing is written that needs it.
    options = ("-v2", "sm4-cbc", "-v2prf", "hmacWithSM3")
    run = openssl(
        "pkcs8",
        "-topk8",
        "-in",
        folder / "plain.pem",
        *options,
        *PASS_OUT,
        input=PASSPHRASE,
        check=False,
    )
    if run.returncode == 0:
        assert load(folder, run.stdout, PASSPHRASE).public_key == key.public_key
    else:
        assert b"PRF" in run.stderr


REFUSED = {
    "scrypt": ("-scrypt", "-scrypt_N", "1024"),
    "PKCS#5 v1": ("-v1", "PBE-SHA1-3DES"),
    "SHA-1": ("-v2", "aes-256-cbc", "-v2prf", "hmacWithSHA1"),
    "3DES": ("-v2", "des3"),
}


@pytest.mark.parametrize("options", REFUSED.values(), ids=REFUSED)
def test_other_encryption_is_refused_with_a_way_out(folder, key, options):
    data = openssl(
        "pkcs8", "-topk8", "-in", folder / "plain.pem", *options, *PASS_OUT, input=PASSPHRASE
    ).stdout
    with pytest.raises(KeyFileError, match="openssl pkcs8") as caught:
        load(folder, data, PASSPHRASE)
    assert caught.value.reason == "format"


def test_the_old_form_is_refused_with_a_way_out(folder, key):
    old = openssl("ec", "-in", folder / "plain.pem").stdout
    with pytest.raises(KeyFileError, match="openssl pkey") as caught:
        load(folder, old)
    assert caught.value.reason == "format"
    (folder / "old.pem").write_bytes(old)
    new = openssl("pkey", "-in", folder / "old.pem").stdout
    assert load(folder, new).public_key == key.public_key


def test_explicit_parameters_are_refused(folder):
    options = ("EC", "-pkeyopt", "ec_paramgen_curve:SM2", "-pkeyopt", "ec_param_enc:explicit")
    data = openssl("genpkey", "-algorithm", *options).stdout
    with pytest.raises(KeyFileError, match="curve"):
        load(folder, data)
