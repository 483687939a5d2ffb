"""The state of a log at its end: what the next entry goes on from."""

from __future__ import annotations

from array import array

from appliance.log.layout import ADMISSION, CLOSING
from appliance.log.nodes import completed_levels, place_of, place_of_leaf
from crypto.merkle import EMPTY_ROOT, leaf_hash, node_hash
from crypto.sm3 import DIGEST_BYTES


class Growth:
    """The tree as it grows through one segment, where its entries lie, and open admissions.

    Attributes:
        first: index of the first entry of the segment.
        size: number of entries of the log.
        offsets: of the records of this segment's entries.
        nodes: 32 bytes each, the nodes that this segment's entries complete.
        peaks: roots of the perfect subtrees that make up the tree, the largest first.
        open_admissions: indexes of admissions without a closing statement, ascending.
    """

    def __init__(self, size: int, peaks: list[bytes], open_admissions: list[int]) -> None:
        """Begin a segment after `size` entries."""
        self.first = size
        self.size = size
        self.offsets = array("Q")
        self.nodes = bytearray()
        self.peaks = peaks
        self.open_admissions = dict.fromkeys(open_admissions)

    def append(self, kind: int, refers: int, body: bytes, offset: int) -> None:
        """Take an entry that was written at `offset`.

        Raises:
            ValueError: it closes an admission that is not open.
        """
        if kind == CLOSING:
            if refers not in self.open_admissions:
                raise ValueError(f"admission {refers} is not open")
            del self.open_admissions[refers]
        elif kind == ADMISSION:
            self.open_admissions[self.size] = None
        self.append_leaf(leaf_hash(body), offset)

    def append_leaf(self, leaf: bytes, offset: int) -> None:
        """Take an entry of which only the leaf hash is known."""
        node = leaf
        self.nodes += node
        for _ in range(completed_levels(self.size)):
            node = node_hash(self.peaks.pop(), node)
            self.nodes += node
        self.peaks.append(node)
        self.offsets.append(offset)
        self.size += 1

    def root(self) -> bytes:
        """Return the root of the tree."""
        if not self.peaks:
            return EMPTY_ROOT
        node = self.peaks[-1]
        for peak in self.peaks[-2::-1]:
            node = node_hash(peak, node)
        return node

    def node(self, level: int, number: int) -> bytes:
        """Return a node that an entry of this segment completed."""
        at = (place_of(level, number) - place_of_leaf(self.first)) * DIGEST_BYTES
        return bytes(self.nodes[at : at + DIGEST_BYTES])
