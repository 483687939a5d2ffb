"""Inclusion and consistency in the tree of RFC 9162 with SM3 (sections 2.1.3.2 and 2.1.4.2)."""

from __future__ import annotations

from verifier.sm3 import sm3

EMPTY_ROOT = sm3()


def leaf_hash(entry: bytes) -> bytes:
    """Return the hash of the leaf that holds an entry."""
    return sm3(b"\x00", entry)


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of an inner node."""
    return sm3(b"\x01", left, right)


def includes(root: bytes, size: int, index: int, leaf: bytes, proof: list[bytes]) -> bool:
    """Return whether the tree of this size and root has the leaf hash at the index."""
    if not 0 <= index < size:
        return False
    place, last = index, size - 1
    value = leaf
    for sibling in proof:
        if last == 0:
            return False
        if place & 1 or place == last:
            value = node_hash(sibling, value)
            while place and not place & 1:
                place, last = place >> 1, last >> 1
        else:
            value = node_hash(value, sibling)
        place, last = place >> 1, last >> 1
    return last == 0 and value == root


def extends(
    old_size: int, old_root: bytes, new_size: int, new_root: bytes, proof: list[bytes]
) -> bool:
    """Return whether the newer tree begins with all leaves of the older one."""
    if old_size >= new_size:
        return old_size == new_size and not proof and old_root == new_root
    if old_size == 0:
        return not proof and old_root == EMPTY_ROOT
    path = list(proof)
    if old_size & (old_size - 1) == 0:
        path.insert(0, old_root)
    if not path:
        return False
    place, last = old_size - 1, new_size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    old = new = path[0]
    for sibling in path[1:]:
        if last == 0:
            return False
        if place & 1 or place == last:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
            while place and not place & 1:
                place, last = place >> 1, last >> 1
        else:
            new = node_hash(new, sibling)
        place, last = place >> 1, last >> 1
    return last == 0 and old == old_root and new == new_root
