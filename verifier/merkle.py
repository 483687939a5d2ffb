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
    return 0 <= index < size and _climb(index, size - 1, leaf, proof)[1] == root


def extends(
    old_size: int, old_root: bytes, new_size: int, new_root: bytes, proof: list[bytes]
) -> bool:
    """Return whether the newer tree begins with all leaves of the older one."""
    if old_size >= new_size:
        return old_size == new_size and not proof and old_root == new_root
    if old_size == 0:
        return not proof and old_root == EMPTY_ROOT
    start, *path = [old_root, *proof] if old_size & (old_size - 1) == 0 else proof or [b""]
    place, last = old_size - 1, new_size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    return _climb(place, last, start, path) == (old_root, new_root)


def _climb(place: int, last: int, start: bytes, proof: list[bytes]) -> tuple[bytes, bytes]:
    """Return the roots of what ends with a place and of the whole; none for a proof that is off."""
    old = new = start
    for sibling in proof:
        if last == 0:
            return b"", b""
        if place & 1 or place == last:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
            while place and not place & 1:
                place, last = place >> 1, last >> 1
        else:
            new = node_hash(new, sibling)
        place, last = place >> 1, last >> 1
    return (old, new) if last == 0 else (b"", b"")
