from __future__ import annotations

import json

import pytest

from tests.engine.reference import scalar
from tests.engine.reference.make_vectors import FILE, make, serialise
from tests.engine.reference.support import from_hex


@pytest.fixture(scope="module")
def committed():
    return json.loads(FILE.read_text())


def hex_of(values: list[float]) -> str:
    return "".join(f"{scalar.to_bits(value):08x}" for value in values)


def rows(text: str, count: int) -> list[list[float]]:
    return from_hex(text).reshape(count, -1).tolist()


def test_the_committed_vectors_are_what_the_definition_computes(committed):
    computed = json.loads(serialise(make()))
    assert committed.keys() == computed.keys()
    for family, vectors in computed.items():
        assert committed[family] == vectors, family


# The scalar program agrees with the committed results from the committed inputs: a second
# implementation, and a second reading of the format.
def test_the_scalar_program_agrees(committed):
    for vector in committed["fold16"]:
        assert hex_of([scalar.fold16(from_hex(vector["v"]).tolist())]) == vector["result"]
    for vector in committed["quantise"]:
        xq, a = scalar.quantise(from_hex(vector["x"]).tolist())
        assert (xq, hex_of(a)) == (vector["xq"], vector["a"])
    for vector in committed["exp"]:
        assert hex_of([scalar.exp(x) for x in from_hex(vector["x"]).tolist()]) == vector["y"]
    for vector in committed["silu_mul"]:
        pairs = zip(from_hex(vector["g"]).tolist(), from_hex(vector["u"]).tolist(), strict=True)
        assert hex_of([scalar.silu_mul(g, u) for g, u in pairs]) == vector["y"]
    for vector in committed["rmsnorm"]:
        weight, eps = from_hex(vector["weight"]).tolist(), from_hex(vector["eps"]).tolist()[0]
        found = [scalar.rmsnorm(x, weight, eps) for x in rows(vector["x"], vector["rows"])]
        assert "".join(map(hex_of, found)) == vector["y"]
