"""The prefix cache: full blocks found again by later sequences of the same cache key.

Rules K1 to K9 are those of engine/kv/README.md.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engine.errors import ConfigError
from engine.kv.blocks import BLOCK_POSITIONS, BlockPool
from engine.kv.cache import SequenceCache

CACHE_KEY_BYTES: Final = 32


class CachedBlock:
    """A full block behind its predecessors in a tree; the root stands for no position."""

    __slots__ = ("children", "ids", "number", "parent", "roots")

    def __init__(
        self, number: int, ids: bytes, parent: CachedBlock | None, roots: NDArray[np.uint8] | None
    ) -> None:
        """Describe block `number`; `roots`, uint8[L + 1, 32], is None after a run without trace."""
        self.number = number
        self.ids = ids
        self.parent = parent
        self.roots = roots
        self.children: dict[bytes, CachedBlock] = {}


class PrefixTree:
    """All blocks cached under one cache key, and how many sequences can still add to them."""

    __slots__ = ("cache_key", "is_live", "num_users", "root")

    def __init__(self, cache_key: bytes) -> None:
        """Start without blocks."""
        self.cache_key = cache_key
        self.root = CachedBlock(-1, b"", None, None)
        self.num_users = 0
        self.is_live = True


class PrefixCache:
    """Finds full blocks again, one tree a cache key. One thread uses it, that of the engine."""

    def __init__(self, pool: BlockPool) -> None:
        """Start empty, over a pool that others may use too."""
        self._pool = pool
        self._trees: dict[bytes, PrefixTree] = {}
        self._num_blocks = 0

    @property
    def num_blocks(self) -> int:
        """Blocks that can be found, in use or not."""
        return self._num_blocks

    @property
    def num_keys(self) -> int:
        """Cache keys that have blocks or running sequences."""
        return len(self._trees)

    def open(self, cache_key: bytes, cache: SequenceCache) -> PrefixUse:
        """Let a new sequence look up and add blocks under a cache key (K1).

        Raises:
            ConfigError: the key has not 32 bytes, or the sequence is of another pool or has begun.
        """
        if len(cache_key) != CACHE_KEY_BYTES:
            raise ConfigError(f"a cache key has {CACHE_KEY_BYTES} bytes, not {len(cache_key)}")
        if cache.pool is not self._pool or cache.num_blocks:
            raise ConfigError("only a new sequence of the same pool can use the prefix cache")
        tree = self._trees.setdefault(cache_key, PrefixTree(cache_key))
        tree.num_users += 1
        return PrefixUse(self, tree, cache)

    def forget(self, cache_key: bytes) -> int:
        """Drop everything of a cache key and return how many blocks that were (K8)."""
        tree = self._trees.pop(cache_key, None)
        if tree is None:
            return 0
        tree.is_live = False
        dropped = 0
        pending = list(tree.root.children.values())
        while pending:
            block = pending.pop()
            pending.extend(block.children.values())
            self._pool.drop(block.number)
            dropped += 1
        self._num_blocks -= dropped
        return dropped

    def add(
        self,
        tree: PrefixTree,
        parent: CachedBlock,
        ids: bytes,
        number: int,
        roots: NDArray[np.uint8] | None,
    ) -> CachedBlock:
        """Return the block with such ids behind `parent`: the one there is, or this new one (K6).

        Args:
            tree: a live tree, which holds `parent`.
            parent: the block before, in use by the caller.
            ids: the block's 64 ids as int32.
            number: the caller's own block with this content.
            roots: uint8[L + 1, 32] in the trace; None without one.
        """
        block = parent.children.get(ids)
        if block is None:
            block = CachedBlock(number, ids, parent, roots)
            parent.children[ids] = block
            self._pool.keep(number, partial(self._evicted, tree, block))
            self._num_blocks += 1
        elif block.roots is None:
            block.roots = roots
        return block

    def close_if_unused(self, tree: PrefixTree) -> None:
        """Forget a key that has neither blocks nor sequences."""
        if tree.is_live and not tree.num_users and not tree.root.children:
            tree.is_live = False
            del self._trees[tree.cache_key]

    def _evicted(self, tree: PrefixTree, block: CachedBlock) -> None:
        """Unlink a block, which is never a predecessor of another cached one (K5)."""
        if block.parent is not None:
            del block.parent.children[block.ids]
        self._num_blocks -= 1
        self.close_if_unused(tree)


class PrefixUse:
    """One sequence's place in the tree of its cache key: the last of its blocks that are there."""

    def __init__(self, prefixes: PrefixCache, tree: PrefixTree, cache: SequenceCache) -> None:
        """Stand before the first block; `PrefixCache.open` counts the user."""
        self._prefixes = prefixes
        self._tree = tree
        self._cache = cache
        self._last = tree.root
        self._num_placed = 0
        self._is_open = True

    @property
    def has_new_blocks(self) -> bool:
        """Whether `offer` has something to do."""
        full = self._cache.num_positions // BLOCK_POSITIONS
        return self._tree.is_live and full > self._num_placed

    def num_in_use(self, prompt: NDArray[np.int32], *, traced: bool) -> int:
        """Return how many blocks that `reuse` would take now are in use by others anyway."""
        in_use = 0
        for block in self._find(prompt, traced=traced):
            if not self._cache.pool.num_users(block.number):
                break
            in_use += 1
        return in_use

    def reuse(self, prompt: NDArray[np.int32], *, traced: bool) -> list[CachedBlock]:
        """Go on with all cached blocks of a prompt that follow, but never its last position (K3).

        Args:
            prompt: all its ids.
            traced: whether the sequence keeps a trace: blocks without roots are of no use then.

        Returns:
            The blocks, which the sequence's cache now holds.
        """
        blocks = self._find(prompt, traced=traced)
        for block in blocks:
            self._cache.share(block.number, block.roots if traced else None)
            self._place(block)
        return blocks

    def offer(self, ids: NDArray[np.int32], *, traced: bool) -> None:
        """Add the full blocks that steps have completed meanwhile (K2, K4).

        Args:
            ids: those of all positions computed, at least.
            traced: whether `trace_roots` of the sequence's cache go with them.
        """
        cache = self._cache
        while self._tree.is_live:
            index = self._num_placed
            stop = BLOCK_POSITIONS * (index + 1)
            if stop > cache.num_positions or (traced and index >= len(cache.trace_roots)):
                break
            number = cache.blocks[index]
            key = ids[stop - BLOCK_POSITIONS : stop].tobytes()
            roots = cache.trace_roots[index] if traced else None
            block = self._prefixes.add(self._tree, self._last, key, number, roots)
            if block.number != number:
                cache.exchange(index, block.number)
            self._place(block)

    def close(self) -> None:
        """Leave the tree; a second call does nothing."""
        if self._is_open:
            self._is_open = False
            self._tree.num_users -= 1
            self._prefixes.close_if_unused(self._tree)

    def _find(self, prompt: NDArray[np.int32], *, traced: bool) -> list[CachedBlock]:
        """Return the cached blocks that follow, from a boundary between blocks on."""
        found: list[CachedBlock] = []
        cache = self._cache
        if not (
            self._tree.is_live and cache.is_at_boundary and self._num_placed == cache.num_blocks
        ):
            return found
        last = self._last
        for start in range(cache.num_positions, len(prompt) - BLOCK_POSITIONS, BLOCK_POSITIONS):
            block = last.children.get(prompt[start : start + BLOCK_POSITIONS].tobytes())
            if block is None or (traced and block.roots is None):
                break
            found.append(block)
            last = block
        return found

    def _place(self, block: CachedBlock) -> None:
        self._last = block
        self._num_placed += 1
