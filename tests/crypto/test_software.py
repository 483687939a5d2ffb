"""The software manifest: its payload, and who may have signed it."""

from __future__ import annotations

import ast
from dataclasses import replace

import cbor2
import pytest

from crypto.cbor import encode
from crypto.cose import sign1
from crypto.errors import FormatError, PolicyError
from crypto.revocations import Revocations
from crypto.software import (
    MAX_MANIFEST_BYTES,
    SOFTWARE_TYPE,
    SoftwareManifest,
    decode_manifest,
    open_manifest,
    sign_manifest,
)
from crypto.trust import TrustFile
from tests import altered
from tests.crypto.test_crypto_readme import ROOT, table_after
from tests.verifier.bundle_case import instant, key_table, signer
from verifier.errors import MalformedError
from verifier.objects import read_software

NUMBERS = {
    "product": -70301,
    "version": -70302,
    "software_digest": -70214,
    "num_files": -70303,
    "num_bytes": -70304,
    "list_digest": -70305,
    "kernels": -70306,
    "numerics": -70307,
    "issued": -70122,
}
NOW = 1_800_000_000
MANIFEST = SoftwareManifest(
    product="windhover",
    version=(1, 2, 3),
    software_digest=bytes(32),
    num_files=7,
    num_bytes=70,
    list_digest=bytes(range(32)),
    kernels=("avx2-x86-64-v3",),
    numerics=("wh1",),
    issued=NOW - 10,
)


def fields(vector):
    values = {name: vector[name] for name in NUMBERS}
    for name in ("software_digest", "list_digest"):
        values[name] = bytes.fromhex(values[name])
    return values | {name: tuple(values[name]) for name in ("version", "kernels", "numerics")}


def test_valid_vectors(load_vectors):
    vectors = load_vectors("software.json")["valid"]
    assert len(vectors) == 3
    for vector in vectors:
        data = bytes.fromhex(vector["data"])
        manifest = SoftwareManifest(**fields(vector))
        assert decode_manifest(data) == manifest, vector["id"]
        assert manifest.encode() == data, vector["id"]
        plain = {NUMBERS[n]: list(v) if type(v) is tuple else v for n, v in fields(vector).items()}
        assert cbor2.loads(data) == plain
        assert read_software(data) == plain


def test_invalid_vectors(load_vectors):
    vectors = load_vectors("software.json")["invalid"]
    assert len({vector["id"] for vector in vectors}) == len(vectors) > 50
    for vector in vectors:
        data = bytes.fromhex(vector["data"])
        with pytest.raises(FormatError) as caught:
            decode_manifest(data)
        found = (caught.value.rule, caught.value.offset)
        assert found == (vector["rule"], vector["offset"]), vector["id"]
        with pytest.raises(MalformedError):
            read_software(data)
    rules = {row[0] for row in table_after("software rule")}
    assert rules <= {vector["rule"] for vector in vectors}


def test_what_no_reader_takes_is_not_written():
    for changed in ({"product": "A"}, {"kernels": ("b", "a")}, {"num_files": 0}, {"numerics": ()}):
        with pytest.raises(ValueError, match="no such manifest"):
            replace(MANIFEST, **changed).encode()


def trust(*, role="software", extra="", name="software"):
    return TrustFile.parse(f"version = 1\n{key_table(name, role, extra)}".encode())


def opened(data, policy=None, *, revocations=None):
    return open_manifest(data, policy or trust(), revocations=revocations, now=NOW)


def test_a_signed_manifest_is_opened_with_the_name_of_its_key():
    manifest, key = opened(sign_manifest(MANIFEST, signer("software")))
    assert (manifest, key.name, manifest.name) == (MANIFEST, "software", "windhover 1.2.3")


def refusal(*arguments, **options):
    with pytest.raises(PolicyError) as caught:
        opened(*arguments, **options)
    return caught.value.reason


def revoking(key_id):
    return Revocations(1, NOW - 1, frozenset({key_id}), frozenset(), signer("revoke").key_id)


def test_each_reason(load_vectors):
    signed = sign_manifest(MANIFEST, signer("software"))
    over, soon = (f'{name} = "{instant(NOW + at)}"' for name, at in
                  (("not_after", 0), ("not_before", 1)))  # fmt: skip
    listed = revoking(signer("software").key_id)
    found = [
        refusal(signed, trust(name="another")),
        *(refusal(signed, trust(role=role)) for role in ("weights", "attest", "witness", "revoke")),
        refusal(sign_manifest(MANIFEST, signer("weights"))),
        refusal(altered.last_byte(signed)),
        refusal(signed, revocations=listed),
        refusal(signed, trust(extra=over), revocations=listed),
        refusal(signed, trust(extra=over)),
        refusal(signed, trust(extra=soon)),
    ]
    assert found == [
        *["software-unknown-signer"] * 6,
        "software-bad-signature",
        *["software-key-revoked"] * 2,
        "software-key-expired",
        "software-key-not-yet-valid",
    ]
    assert opened(signed, revocations=revoking(bytes(32)))
    with pytest.raises(PolicyError) as caught:
        MANIFEST.check(bytes(31) + b"\1")
    assert caught.value.reason == "software-differs"
    MANIFEST.check(bytes(32))


def test_the_reasons_of_the_table_are_those_of_the_code():
    names = set()
    for path in ("crypto/software.py", "appliance/software_compare.py"):
        for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "PolicyError":
                names.add(node.args[0].value)
    assert names == {row[0] for row in table_after("software reason")}


def test_another_object_is_no_manifest():
    payload = MANIFEST.encode()
    for typ in ("windhover/release;v=1", "windhover/software;v=2", "windhover/statement;v=1"):
        with pytest.raises(FormatError) as caught:
            opened(sign1(payload, typ=typ, signer=signer("software")))
        assert caught.value.rule == "type"
    signed = sign_manifest(MANIFEST, signer("software"))
    for data, rule in (
        (signed + b"\0", "trailing-bytes"),
        (signed.ljust(MAX_MANIFEST_BYTES + 1, b"\0"), "max-bytes"),
        (signed[1:], "sign1-tag"),
        (sign1(encode([1]), typ=SOFTWARE_TYPE, signer=signer("software")), "object-map"),
    ):
        with pytest.raises(FormatError) as caught:
            opened(data)
        assert caught.value.rule == rule


def test_every_flipped_bit_is_refused():
    signed = sign_manifest(MANIFEST, signer("software"))
    for place in range(len(signed)):
        data = bytearray(signed)
        data[place] ^= 1 << (place % 8)
        with pytest.raises((FormatError, PolicyError)):
            opened(bytes(data))
