"""The vectors of the other implementation: what it accepts and refuses, this one does too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from crypto.errors import InvalidProofError
from crypto.merkle import verify_consistency, verify_inclusion
from crypto.trust import TrustFile
from verifier import cbor, merkle, objects, sm2, sm3, toml
from verifier.cose import decode_sign1
from verifier.errors import MalformedError
from verifier.trust import Trust

DATA = Path(__file__).parents[1] / "data" / "crypto"
ORDER = sm2.N


def vectors(name):
    return json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))


def point(text):
    return int(text[2:66], 16), int(text[66:], 16)


def refusal(function, *arguments, **limits):
    """Return rule and offset of what a reader refuses."""
    with pytest.raises(MalformedError) as caught:
        function(*arguments, **limits)
    return caught.value.rule, caught.value.offset


def content(vector):
    if "hex" in vector:
        return bytes.fromhex(vector["hex"])
    parts = vector.get("parts") or [[vector["text"], 1]]
    return "".join(text * times for text, times in parts).encode()


def test_sm3():
    groups = vectors("sm3")["groups"]
    tests = [vector for group in groups for vector in group["tests"]]
    assert len(tests) > 5
    for vector in tests:
        message = bytes.fromhex(vector["message"])
        expected = bytes.fromhex(vector["digest"])
        assert sm3.plain(message) == sm3.sm3(message) == expected
        assert sm3.plain(message[:1], message[1:]) == expected


def test_sm3_of_every_length_around_a_block():
    if sm3.SOURCE == "python":
        pytest.skip("this hashlib has no SM3 to compare with")
    for length in (*range(54, 66), *range(118, 130), 1000):
        message = bytes(i % 251 for i in range(length))
        assert sm3.plain(message) == sm3.sm3(message)


def test_sm2_signatures():
    document = vectors("sm2")
    valid = [document["standard"], *document["leading_zeros"]]
    for vector in valid:
        key = sm2.PublicKey(point(vector["public_key"]))
        message, signature = bytes.fromhex(vector["message"]), bytes.fromhex(vector["signature"])
        assert sm2.verifies(key, message, signature)
        assert not sm2.verifies(key, message + b"\0", signature)
    standard = document["standard"]
    key = sm2.PublicKey(point(standard["public_key"]))
    assert key.identity_digest.hex() == standard["identity_digest"]
    for vector in document["invalid_signatures"]:
        signature = bytes.fromhex(vector["signature"])
        assert not sm2.verifies(key, bytes.fromhex(standard["message"]), signature), vector["id"]


def test_no_signature_with_r_plus_s_a_multiple_of_the_order(monkeypatch):
    key = sm2.PublicKey(sm2.G)
    s = 12_345
    ((x, _),) = sm2._affine([sm2._sum_of_multiples(s, key.multiples, 0, key.multiples)])
    digest = (ORDER - s - x) % ORDER
    monkeypatch.setattr(sm2, "sm3", lambda *parts: digest.to_bytes(32, "big"))
    signature = (ORDER - s).to_bytes(32, "big") + s.to_bytes(32, "big")
    assert not sm2.verifies(key, b"", signature)


@pytest.mark.parametrize(
    ("x", "y"), [(0, 0), (sm2.G[0], sm2.G[1] + 1), (sm2.G[0] + sm2.P, sm2.G[1]), (-1, 0)]
)
def test_points_off_the_curve(x, y):
    with pytest.raises(MalformedError):
        sm2.PublicKey((x, y))


def test_multiples_of_points_where_additions_meet():
    key = sm2.PublicKey(sm2.G)
    total = sm2._sum_of_multiples(5, key.multiples, ORDER - 5, key.multiples)
    assert total[2] == 0
    for s, t in ((1, 1), (3, ORDER - 1), (ORDER - 1, 3), (16, 16), (ORDER - 1, ORDER - 1)):
        (direct,) = sm2._affine([sm2._sum_of_multiples(s, key.multiples, t, key.multiples)])
        slow = (1, 1, 0)
        for bit in bin((s + t) % ORDER)[2:]:
            slow = sm2._double(slow)
            slow = sm2._add(slow, sm2.G) if bit == "1" else slow
        assert sm2._affine([slow]) == [direct]


def test_cbor():
    valid, invalid = vectors("cbor_valid")["tests"], vectors("cbor_invalid")["tests"]
    assert len(valid) > 50
    for vector in valid:
        assert plain(cbor.decode(bytes.fromhex(vector["hex"]))) == vector["value"], vector["id"]
    for vector in invalid:
        found = refusal(cbor.decode, bytes.fromhex(vector["hex"]), **vector.get("limits", {}))
        assert found == (vector["rule"], vector["offset"]), vector["id"]


def plain(value):
    """Return a value in the form of the vectors."""
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, list):
        return [plain(part) for part in value]
    if isinstance(value, dict):
        return {"map": [[plain(key), plain(part)] for key, part in value.items()]}
    if type(value) is int and abs(value) >= 1 << 53:
        return {"int": str(value)}
    return value


def follows(check, *arguments):
    """Return what the other implementation says of a proof."""
    try:
        check(*arguments)
    except InvalidProofError:
        return False
    return True


def test_merkle():
    document = vectors("merkle")
    roots = {entry["size"]: bytes.fromhex(entry["root"]) for entry in document["roots"]}
    leaves = [merkle.leaf_hash(bytes.fromhex(entry)) for entry in document["entries"]]
    for vector in document["inclusion"]:
        size, index = vector["size"], vector["index"]
        proof = [bytes.fromhex(part) for part in vector["proof"]]
        assert merkle.includes(roots[size], size, index, leaves[index], proof)
        assert not merkle.includes(roots[size], size, index, leaves[index], [*proof, bytes(32)])
        assert not merkle.includes(roots[size], size, size, leaves[index], proof)
        for other in range(20):
            for place in range(20):
                says = merkle.includes(roots[size], other, place, leaves[index], proof)
                known = (leaves[index], place, other, proof, roots[size])
                assert says == follows(verify_inclusion, *known)
        assert not merkle.includes(bytes(32), size, index, leaves[index], proof)
        for at in range(len(proof)):
            assert not merkle.includes(roots[size], size, index, leaves[index], proof[:at])
    for vector in document["consistency"]:
        old, new = vector["old_size"], vector["new_size"]
        proof = [bytes.fromhex(part) for part in vector["proof"]]
        assert merkle.extends(old, roots[old], new, roots[new], proof)
        assert not merkle.extends(old, roots[old], new, roots[new], [*proof, bytes(32)])
        assert not merkle.extends(old, bytes(32), new, roots[new], proof)
        for size in range(20):
            says = merkle.extends(old, roots[old], size, roots[new], proof)
            assert says == follows(verify_consistency, old, roots[old], size, roots[new], proof)
        for at in range(len(proof)):
            altered = [*proof[:at], bytes(32), *proof[at + 1 :]]
            assert not merkle.extends(old, roots[old], new, roots[new], altered)
            assert not merkle.extends(old, roots[old], new, roots[new], proof[:at])


def test_cose():
    document = vectors("cose")
    key = sm2.PublicKey(point(document["public_key"]))
    assert key.key_id.hex() == document["key_id"]
    for vector in document["tests"]:
        sign1 = decode_sign1(bytes.fromhex(vector["data"]), 65_536)
        assert (sign1.typ, sign1.payload.hex()) == (vector["typ"], vector["payload"])
        assert sign1.verifies(key)
        assert not sign1.verifies(sm2.PublicKey(sm2.G))
    for vector in vectors("cose_invalid")["tests"]:
        found = refusal(decode_sign1, bytes.fromhex(vector["data"]), vector["max_bytes"])
        assert found[0] == vector["rule"], vector["id"]


def test_releases():
    document = vectors("release")
    for vector in document["valid"]:
        claims = objects.read_release(bytes.fromhex(vector["data"]))
        for name in ("model_digest", "line", "release", "not_before", "expires", "least_runtime"):
            value = claims.get(getattr(objects, name.upper().replace("MODEL_DIGEST", "MODEL")))
            assert (value.hex() if isinstance(value, bytes) else value) == vector[name]
    for vector in document["invalid"]:
        refusal(objects.read_release, bytes.fromhex(vector["data"]))


def test_lists_of_revocations():
    tests = vectors("revocations")["tests"]
    assert len(tests) > 10
    for vector in tests:
        data = bytes.fromhex(vector["hex"]) + bytes(vector.get("zeros", 0))

        def read(data=data):
            sign1 = decode_sign1(data, objects.MAX_OBJECT_BYTES)
            if sign1.typ != "windhover/revocations;v=1":
                raise MalformedError("type")
            return objects.read_revocations(sign1.payload)

        if "rule" in vector:
            refusal(read)
        else:
            assert read()[objects.LIST_SEQUENCE] == vector["value"]["sequence"]


def test_toml():
    for vector in vectors("trust_valid")["toml"]:
        assert toml.parse(content(vector)) == vector["value"], vector["id"]
    for vector in vectors("trust_invalid")["toml"]:
        found = refusal(toml.parse, content(vector))
        assert found == (vector["rule"], vector["offset"]), vector["id"]


def test_trust_files():
    for vector in vectors("trust_valid")["trust"]:
        data = content(vector)
        trust, value = Trust(data), vector["value"]
        assert trust.digest.hex() == value["digest"]
        assert {log_id.hex(): name for log_id, name in trust.logs.items()} == value["logs"]
        assert {
            key_id.hex(): {
                "name": key.name,
                "role": key.role,
                "not_before": key.not_before,
                "not_after": key.not_after,
            }
            for key_id, key in trust.keys.items()
        } == value["keys"]
        assert {
            name: {
                "signer_ids": sorted(key_id.hex() for key_id in line.signer_ids),
                "threshold": line.threshold,
                "minimum_release": line.minimum_release,
            }
            for name, line in trust.lines.items()
        } == value["lines"]
        other = TrustFile.parse(data).revocations
        assert trust.revocations_required == other.required
        assert trust.minimum_sequence == other.minimum_sequence
        assert 86_400 * trust.maximum_age_days == (other.maximum_age_s or 0)
    for vector in vectors("trust_invalid")["trust"]:
        found = refusal(Trust, content(vector))
        assert found[0] == vector["rule"], vector["id"]
