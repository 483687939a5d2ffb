"""Where nodes are stored, and the proofs from there, beside the plain tree."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.log.growth import Growth
from appliance.log.nodes import Tree, completed_levels, last_leaf_of, place_of, place_of_leaf
from crypto import merkle

LEAVES = [merkle.leaf_hash(bytes([number])) for number in range(130)]


def grown(size):
    growth = Growth(0, [], [])
    for leaf in LEAVES[:size]:
        growth.append_leaf(leaf, 0)
    return growth


TREE = Tree(grown(len(LEAVES)).node)


def test_every_node_has_a_place_of_its_own_and_none_is_left_free():
    places = [
        place_of(level, number)
        for level in range(8)
        for number in range(128 >> level)
        if last_leaf_of(level, number) < 128
    ]
    assert sorted(places) == list(range(place_of_leaf(128)))


@given(st.integers(0, (1 << 53) - 1))
def test_a_leaf_brings_its_hash_and_the_nodes_it_completes(leaf):
    assert place_of_leaf(leaf + 1) - place_of_leaf(leaf) == 1 + completed_levels(leaf)
    assert place_of(0, leaf) == place_of_leaf(leaf)


@pytest.mark.parametrize("size", [*range(18), 31, 32, 33, 64, 127, 130])
def test_roots_and_proofs_are_those_of_the_plain_tree(size):
    leaves = LEAVES[:size]
    assert TREE.root(size) == grown(size).root() == merkle.root(leaves)
    for index in range(size):
        assert TREE.inclusion(index, size) == merkle.inclusion_proof(leaves, index)
    for old in range(size + 1):
        assert TREE.consistency(old, size) == merkle.consistency_proof(leaves, old)


@given(st.data())
@settings(deadline=None, max_examples=30)
def test_a_proof_reads_few_nodes_of_a_large_tree(data):
    size = data.draw(st.integers(2, (1 << 53) - 1))
    index = data.draw(st.integers(0, size - 1))
    read = []

    def node(level, number):
        assert last_leaf_of(level, number) < size
        read.append((level, number))
        return bytes(32)

    Tree(node).inclusion(index, size)
    Tree(node).consistency(index, size)
    assert len(read) <= 4 * size.bit_length()


@pytest.mark.parametrize(("index", "size"), [(0, 0), (5, 5), (-1, 5)])
def test_what_is_not_there_has_no_proof(index, size):
    with pytest.raises(IndexError):
        TREE.inclusion(index, size)
    if index:
        with pytest.raises(IndexError):
            TREE.consistency(size + 1, size)
