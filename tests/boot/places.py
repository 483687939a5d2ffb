"""Where a byte of the root image is changed: places that a start reads, and what they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.boot.drive import BLOCK
from tests.boot.image import Image

_OF_SUPERBLOCK = 8
"""In the superblock of a squashfs: the time when it was made, which no start needs."""

Place = Callable[[Image, Iterable[int]], int]


def _superblock(image: Image, reads: Iterable[int]) -> int:
    return _OF_SUPERBLOCK


def _data(image: Image, reads: Iterable[int]) -> int:
    blocks = [at for at in reads if at < image.tree]
    return blocks[len(blocks) // 2] + BLOCK // 3


def _tree(image: Image, reads: Iterable[int]) -> int:
    # the first block is the tree's own superblock
    blocks = [at for at in reads if at > image.tree]
    return blocks[len(blocks) // 2] + BLOCK // 3


def _tree_superblock(image: Image, reads: Iterable[int]) -> int:
    return image.tree


PLACES: dict[str, Place] = {
    "superblock of the file system": _superblock,
    "data that a start reads, half way": _data,
    "hash tree, a block that a start reads": _tree,
    "superblock of the hash tree": _tree_superblock,
}
"""Each takes the image and what a start read of it, in order, and returns the offset of a byte."""
