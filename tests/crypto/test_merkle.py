from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crypto import merkle
from crypto.errors import InvalidProofError
from crypto.sm3 import sm3

SIZES = st.integers(1, 70)


def leaves_of(count):
    return [merkle.leaf_hash(i.to_bytes(4, "big")) for i in range(count)]


def unhex(values):
    return [bytes.fromhex(value) for value in values]


def flipped(value, bit):
    changed = bytearray(value)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_vectors(load_vectors, slow_tree):
    vectors = load_vectors("merkle.json")
    entries = unhex(vectors["entries"])
    leaves = [merkle.leaf_hash(entry) for entry in entries]
    assert leaves == [slow_tree.leaf(entry) for entry in entries]
    roots = {vector["size"]: bytes.fromhex(vector["root"]) for vector in vectors["roots"]}
    assert sorted(roots) == list(range(9))
    for size, root in roots.items():
        assert merkle.root(leaves[:size]) == slow_tree.root(leaves[:size]) == root
    assert len(vectors["inclusion"]) == 36
    for vector in vectors["inclusion"]:
        size, index, proof = vector["size"], vector["index"], unhex(vector["proof"])
        assert merkle.inclusion_proof(leaves[:size], index) == proof
        assert slow_tree.path(index, leaves[:size]) == proof
        merkle.verify_inclusion(leaves[index], index, size, proof, roots[size])
    assert len(vectors["consistency"]) == 45
    for vector in vectors["consistency"]:
        old, new, proof = vector["old_size"], vector["new_size"], unhex(vector["proof"])
        assert merkle.consistency_proof(leaves[:new], old) == proof
        assert slow_tree.proof(old, leaves[:new]) == proof
        merkle.verify_consistency(old, roots[old], new, roots[new], proof)


def test_empty_tree_is_the_hash_of_nothing():
    assert merkle.root([]) == merkle.EMPTY_ROOT == sm3(b"")


@settings(deadline=None, max_examples=60)
@given(size=st.integers(0, 200))
def test_root_equals_the_recursive_definition(recursive_tree, size):
    leaves = leaves_of(size)
    assert merkle.root(leaves) == recursive_tree.root(leaves)


@settings(deadline=None, max_examples=80)
@given(size=SIZES, data=st.data())
def test_inclusion(recursive_tree, size, data):
    leaves = leaves_of(size)
    index = data.draw(st.integers(0, size - 1))
    proof = merkle.inclusion_proof(leaves, index)
    assert proof == recursive_tree.path(index, leaves)
    merkle.verify_inclusion(leaves[index], index, size, proof, merkle.root(leaves))


@settings(deadline=None, max_examples=80)
@given(new=SIZES, data=st.data())
def test_consistency(recursive_tree, new, data):
    leaves = leaves_of(new)
    old = data.draw(st.integers(0, new))
    proof = merkle.consistency_proof(leaves, old)
    assert proof == recursive_tree.proof(old, leaves)
    merkle.verify_consistency(old, merkle.root(leaves[:old]), new, merkle.root(leaves), proof)


def assert_inclusion_refused(leaf, index, size, proof, root):
    with pytest.raises(InvalidProofError) as caught:
        merkle.verify_inclusion(leaf, index, size, proof, root)
    assert str(caught.value) == ""


@settings(deadline=None, max_examples=80)
@given(size=SIZES, data=st.data())
def test_altered_inclusion_is_refused(size, data):
    leaves = leaves_of(size)
    index = data.draw(st.integers(0, size - 1))
    proof = merkle.inclusion_proof(leaves, index)
    root = merkle.root(leaves)
    leaf = leaves[index]
    bit = data.draw(st.integers(0, 255))
    assert_inclusion_refused(flipped(leaf, bit), index, size, proof, root)
    assert_inclusion_refused(leaf, index, size, proof, flipped(root, bit))
    assert_inclusion_refused(leaf, index, size, [*proof, root], root)
    assert_inclusion_refused(leaf, index, size, [root, *proof], root)
    assert_inclusion_refused(leaf, size + index, size, proof, root)
    assert_inclusion_refused(leaf, index - size, size, proof, root)
    for place, element in enumerate(proof):
        before, after = proof[:place], proof[place + 1 :]
        assert_inclusion_refused(leaf, index, size, [*before, flipped(element, bit), *after], root)
        assert_inclusion_refused(leaf, index, size, [*before, *after], root)
        assert_inclusion_refused(leaf, index, size, [*before, element[:-1], *after], root)
        assert_inclusion_refused(leaf, index, size, [*before, element + b"\0", *after], root)
    for other in set(range(size)) - {index}:
        assert_inclusion_refused(leaf, other, size, proof, root)


def test_a_node_is_no_leaf():
    leaves = leaves_of(4)
    proof = [merkle.node_hash(leaves[2], leaves[3])]
    inner = merkle.node_hash(leaves[0], leaves[1])
    assert_inclusion_refused(inner, 0, 4, proof, merkle.root(leaves))
    assert merkle.leaf_hash(leaves[0] + leaves[1]) != inner


def assert_consistency_refused(old, old_root, new, new_root, proof):
    with pytest.raises(InvalidProofError) as caught:
        merkle.verify_consistency(old, old_root, new, new_root, proof)
    assert str(caught.value) == ""


@settings(deadline=None, max_examples=80)
@given(new=SIZES, data=st.data())
def test_altered_consistency_is_refused(new, data):
    leaves = leaves_of(new)
    old = data.draw(st.integers(0, new))
    old_root, new_root = merkle.root(leaves[:old]), merkle.root(leaves)
    proof = merkle.consistency_proof(leaves, old)
    bit = data.draw(st.integers(0, 255))
    assert_consistency_refused(old, flipped(old_root, bit), new, new_root, proof)
    if old > 0:  # every tree extends the empty one
        assert_consistency_refused(old, old_root, new, flipped(new_root, bit), proof)
    assert_consistency_refused(old, old_root, new, new_root, [*proof, new_root])
    assert_consistency_refused(old, old_root, new, new_root, [new_root, *proof])
    assert_consistency_refused(new + 1, old_root, new, new_root, proof)
    assert_consistency_refused(-1, old_root, new, new_root, proof)
    for place, element in enumerate(proof):
        before, after = proof[:place], proof[place + 1 :]
        changed = [*before, flipped(element, bit), *after]
        assert_consistency_refused(old, old_root, new, new_root, changed)
        assert_consistency_refused(old, old_root, new, new_root, [*before, *after])
        short = [*before, element[:-1], *after]
        assert_consistency_refused(old, old_root, new, new_root, short)


@settings(deadline=None, max_examples=60)
@given(new=st.integers(2, 70), data=st.data())
def test_a_rewritten_history_is_refused(new, data):
    leaves = leaves_of(new)
    old = data.draw(st.integers(1, new - 1))
    place = data.draw(st.integers(0, old - 1))
    rewritten = [*leaves[:place], merkle.leaf_hash(b"other"), *leaves[place + 1 :]]
    proof = merkle.consistency_proof(rewritten, old)
    old_root, new_root = merkle.root(leaves[:old]), merkle.root(rewritten)
    assert_consistency_refused(old, old_root, new, new_root, proof)


def test_a_proof_of_other_sizes_is_refused():
    leaves = leaves_of(8)
    roots = [merkle.root(leaves[:size]) for size in range(9)]
    # Roots and hashes are genuine and fold to each other; only the sizes are not theirs.
    assert_inclusion_refused(leaves[1], 0, 1, [leaves[0]], roots[2])
    assert_inclusion_refused(leaves[0], 0, 3, [leaves[1]], roots[2])
    proof = merkle.consistency_proof(leaves, 7)
    merkle.verify_consistency(7, roots[7], 8, roots[8], proof)
    assert_consistency_refused(3, roots[7], 4, roots[8], proof)
    proof = merkle.consistency_proof(leaves[:4], 3)
    merkle.verify_consistency(3, roots[3], 4, roots[4], proof)
    assert_consistency_refused(7, roots[3], 8, roots[4], proof)


def test_an_empty_proof_shows_no_growth():
    leaves = leaves_of(9)
    roots = [merkle.root(leaves[:size]) for size in range(10)]
    for new in range(2, 10):
        for old in range(1, new):
            assert_consistency_refused(old, roots[old], new, roots[new], [])


def test_consistency_of_the_empty_tree():
    root = merkle.root(leaves_of(3))
    merkle.verify_consistency(0, merkle.EMPTY_ROOT, 0, merkle.EMPTY_ROOT, [])
    merkle.verify_consistency(0, merkle.EMPTY_ROOT, 3, root, [])
    assert_consistency_refused(0, root, 3, root, [])
    assert_consistency_refused(0, merkle.EMPTY_ROOT, 0, root, [])
    assert_consistency_refused(3, root, 0, merkle.EMPTY_ROOT, [])


def test_proofs_of_leaves_that_are_not_there():
    leaves = leaves_of(5)
    for index in (-1, 5):
        with pytest.raises(IndexError):
            merkle.inclusion_proof(leaves, index)
    for size in (-1, 6):
        with pytest.raises(IndexError):
            merkle.consistency_proof(leaves, size)
    with pytest.raises(IndexError):
        merkle.inclusion_proof([], 0)


def test_hashes_of_wrong_length_are_a_bug_of_the_caller():
    good, short = merkle.EMPTY_ROOT, bytes(31)
    calls = [
        lambda: merkle.node_hash(good, short),
        lambda: merkle.node_hash(short, good),
        lambda: merkle.root([short]),
        lambda: merkle.root([good, short]),
        lambda: merkle.verify_inclusion(short, 0, 1, [], good),
        lambda: merkle.verify_inclusion(good, 0, 1, [], short),
        lambda: merkle.verify_consistency(1, short, 1, good, []),
        lambda: merkle.verify_consistency(1, good, 1, short, []),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="32 bytes"):
            call()
