"""Merkle trees of RFC 9162 with SM3: roots, inclusion proofs, consistency proofs.

- leaf hash: SM3(0x00 || entry); node hash: SM3(0x01 || left || right); root of the empty tree:
  SM3 of nothing.
- A tree of n > 1 leaves splits after the largest power of two below n. Read from the leaves up this
  pairs neighbours on each level and carries a last odd node up unchanged.
- Proofs come from outside: every way in which one can be wrong is `InvalidProofError`. Everything
  compared here is public, so comparisons need no constant time.

Source: RFC 9162 section 2.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from crypto.errors import InvalidProofError
from crypto.sm3 import DIGEST_BYTES, prefixed, sm3

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

LEAF_PREFIX: Final = b"\x00"
NODE_PREFIX: Final = b"\x01"
EMPTY_ROOT: Final = sm3(b"")

_hash_leaf = prefixed(LEAF_PREFIX)
_hash_node = prefixed(NODE_PREFIX)


def leaf_hash(entry: ReadableBuffer) -> bytes:
    """Return the 32-byte hash of the leaf that holds `entry`."""
    return _hash_leaf(entry)


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the 32-byte hash of the node above two 32-byte hashes.

    Raises:
        ValueError: a hash has not 32 bytes.
    """
    if len(left) != DIGEST_BYTES or len(right) != DIGEST_BYTES:
        raise ValueError(f"hashes must have 32 bytes, not {len(left)} and {len(right)}")
    return _hash_node(left + right)


def root(leaf_hashes: Sequence[bytes]) -> bytes:
    """Return the root of the tree over these leaf hashes.

    Raises:
        ValueError: a hash has not 32 bytes.
    """
    if not leaf_hashes:
        return EMPTY_ROOT
    level = list(leaf_hashes)
    while len(level) > 1:
        level = _level_above(level)
    _require_digest(level[0])
    return level[0]


def inclusion_proof(leaf_hashes: Sequence[bytes], index: int) -> list[bytes]:
    """Return the hashes that lead from leaf `index` to the root, lowest first.

    Raises:
        IndexError: the tree has no such leaf.

    Source: RFC 9162 section 2.1.3.1.
    """
    if not 0 <= index < len(leaf_hashes):
        raise IndexError(f"no leaf {index} in a tree of {len(leaf_hashes)}")
    level = list(leaf_hashes)
    proof = []
    while len(level) > 1:
        sibling = index ^ 1
        if sibling < len(level):
            proof.append(level[sibling])
        level = _level_above(level)
        index >>= 1
    return proof


def verify_inclusion(
    unverified_leaf_hash: bytes,
    index: int,
    tree_size: int,
    unverified_proof: Sequence[bytes],
    root_hash: bytes,
) -> None:
    """Check that the tree of `tree_size` leaves with this root has this leaf hash at `index`.

    Raises:
        InvalidProofError: it does not follow.
        ValueError: the leaf hash or the root has not 32 bytes.

    Source: RFC 9162 section 2.1.3.2.

    Security: `root_hash` and `tree_size` must come from a source that was checked, such as a signed
    checkpoint.
    """
    _require_digest(unverified_leaf_hash)
    _require_digest(root_hash)
    _require_digests_in_proof(unverified_proof)
    if not 0 <= index < tree_size:
        raise InvalidProofError
    node, last = index, tree_size - 1
    computed = unverified_leaf_hash
    for sibling in unverified_proof:
        if last == 0:
            raise InvalidProofError
        if node & 1 or node == last:
            computed = node_hash(sibling, computed)
            while not node & 1 and node:  # levels on which this node is the last odd one
                node >>= 1
                last >>= 1
        else:
            computed = node_hash(computed, sibling)
        node >>= 1
        last >>= 1
    if last != 0 or computed != root_hash:
        raise InvalidProofError


def consistency_proof(leaf_hashes: Sequence[bytes], old_size: int) -> list[bytes]:
    """Return the hashes that show that the tree extends its first `old_size` leaves.

    The proof is empty for `old_size` 0 and for the whole tree: the roots then say everything.

    Raises:
        IndexError: the tree has fewer leaves.

    Source: RFC 9162 section 2.1.4.1.
    """
    if not 0 <= old_size <= len(leaf_hashes):
        raise IndexError(f"no older tree of {old_size} in a tree of {len(leaf_hashes)}")
    if old_size == 0:
        return []
    start, end = 0, len(leaf_hashes)
    proof = []
    while end != old_size:
        split = start + (1 << (end - start - 1).bit_length() - 1)
        if old_size <= split:
            proof.append(root(leaf_hashes[split:end]))
            end = split
        else:
            proof.append(root(leaf_hashes[start:split]))
            start = split
    if start != 0:
        # With start 0 what is left is the old tree itself, whose root the verifier has.
        proof.append(root(leaf_hashes[start:end]))
    proof.reverse()
    return proof


def verify_consistency(
    old_size: int,
    old_root: bytes,
    new_size: int,
    new_root: bytes,
    unverified_proof: Sequence[bytes],
) -> None:
    """Check that the tree of `new_size` leaves begins with the tree of `old_size` leaves.

    Raises:
        InvalidProofError: it does not follow.
        ValueError: a root has not 32 bytes.

    Source: RFC 9162 section 2.1.4.2.

    Security: both roots and sizes must come from sources that were checked, such as signed
    checkpoints.
    """
    _require_digest(old_root)
    _require_digest(new_root)
    _require_digests_in_proof(unverified_proof)
    if not 0 <= old_size <= new_size:
        raise InvalidProofError
    if old_size in (0, new_size):
        expected = EMPTY_ROOT if old_size == 0 else new_root
        if unverified_proof or old_root != expected or (new_size == 0 and new_root != EMPTY_ROOT):
            raise InvalidProofError
        return
    node, last = old_size - 1, new_size - 1
    while node & 1:
        node >>= 1
        last >>= 1
    # An old tree of a power of two is itself the first node of the path.
    path = [old_root, *unverified_proof] if node == 0 else list(unverified_proof)
    if not path:
        raise InvalidProofError
    computed_old = computed_new = path[0]
    for sibling in path[1:]:
        if last == 0:
            raise InvalidProofError
        if node & 1 or node == last:
            computed_old = node_hash(sibling, computed_old)
            computed_new = node_hash(sibling, computed_new)
            while not node & 1 and node:
                node >>= 1
                last >>= 1
        else:
            computed_new = node_hash(computed_new, sibling)
        node >>= 1
        last >>= 1
    if last != 0 or computed_old != old_root or computed_new != new_root:
        raise InvalidProofError


def _level_above(level: list[bytes]) -> list[bytes]:
    """Return the nodes above `level`; a last odd node rises unchanged."""
    above = [node_hash(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
    if len(level) % 2:
        above.append(level[-1])
    return above


def _require_digest(value: bytes) -> None:
    """Refuse a hash that has not 32 bytes: a bug of the caller."""
    if len(value) != DIGEST_BYTES:
        raise ValueError(f"a hash must have 32 bytes, not {len(value)}")


def _require_digests_in_proof(unverified_proof: Sequence[bytes]) -> None:
    """Refuse a proof with an element that is no hash."""
    if any(len(element) != DIGEST_BYTES for element in unverified_proof):
        raise InvalidProofError
