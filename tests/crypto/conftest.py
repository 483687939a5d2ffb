"""Slow, obvious second implementations that the package is compared with."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

_DATA = Path(__file__).parents[1] / "data" / "crypto"


@pytest.fixture(scope="session")
def load_vectors() -> Callable[[str], Any]:
    """Read a vector file of this package by name."""
    return lambda name: json.loads((_DATA / name).read_text(encoding="utf-8"))


def _rotated(word: int, count: int) -> int:
    count %= 32
    return (word << count | word >> (32 - count)) & 0xFFFFFFFF


def _compressed(state: list[int], block: bytes) -> list[int]:
    # Message expansion, 5.3.2
    w = [int.from_bytes(block[i : i + 4], "big") for i in range(0, 64, 4)]
    for j in range(16, 68):
        x = w[j - 16] ^ w[j - 9] ^ _rotated(w[j - 3], 15)
        w.append(x ^ _rotated(x, 15) ^ _rotated(x, 23) ^ _rotated(w[j - 13], 7) ^ w[j - 6])
    # Compression, 5.3.3
    a, b, c, d, e, f, g, h = state
    for j in range(64):
        constant = 0x79CC4519 if j < 16 else 0x7A879D8A
        ss1 = _rotated((_rotated(a, 12) + e + _rotated(constant, j)) & 0xFFFFFFFF, 7)
        ss2 = ss1 ^ _rotated(a, 12)
        ff = a ^ b ^ c if j < 16 else a & b | a & c | b & c
        gg = e ^ f ^ g if j < 16 else e & f | ~e & g
        tt1 = (ff + d + ss2 + (w[j] ^ w[j + 4])) & 0xFFFFFFFF
        tt2 = (gg + h + ss1 + w[j]) & 0xFFFFFFFF
        a, b, c, d = tt1, a, _rotated(b, 9), c
        e, f, g, h = tt2 ^ _rotated(tt2, 9) ^ _rotated(tt2, 17), e, _rotated(f, 19), g
    return [old ^ new for old, new in zip(state, (a, b, c, d, e, f, g, h), strict=True)]


def _slow_sm3(data: bytes) -> bytes:
    padded = data + b"\x80" + bytes(-(len(data) + 9) % 64) + (8 * len(data)).to_bytes(8, "big")
    initial = bytes.fromhex("7380166f4914b2b9172442d7da8a0600a96f30bc163138aae38dee4db0fb0e4e")
    state = [int.from_bytes(initial[i : i + 4], "big") for i in range(0, 32, 4)]
    for i in range(0, len(padded), 64):
        state = _compressed(state, padded[i : i + 64])
    return b"".join(word.to_bytes(4, "big") for word in state)


def _split(count: int) -> int:
    k = 1
    while 2 * k < count:
        k *= 2
    return k


class SlowTree:
    """RFC 9162 section 2.1 word for word, over the entries themselves, with the slow hash."""

    def __init__(self, hash_function: Callable[[bytes], bytes]) -> None:
        self.hash = hash_function

    def leaf(self, entry: bytes) -> bytes:
        return self.hash(b"\x00" + entry)

    def root(self, leaves: Sequence[bytes]) -> bytes:
        if not leaves:
            return self.hash(b"")
        if len(leaves) == 1:
            return leaves[0]
        k = _split(len(leaves))
        return self.hash(b"\x01" + self.root(leaves[:k]) + self.root(leaves[k:]))

    def path(self, m: int, leaves: Sequence[bytes]) -> list[bytes]:
        if len(leaves) == 1:
            return []
        k = _split(len(leaves))
        if m < k:
            return [*self.path(m, leaves[:k]), self.root(leaves[k:])]
        return [*self.path(m - k, leaves[k:]), self.root(leaves[:k])]

    def proof(self, m: int, leaves: Sequence[bytes]) -> list[bytes]:
        return self.subproof(m, leaves, whole=True) if 0 < m < len(leaves) else []

    def subproof(self, m: int, leaves: Sequence[bytes], *, whole: bool) -> list[bytes]:
        if m == len(leaves):
            return [] if whole else [self.root(leaves)]
        k = _split(len(leaves))
        if m <= k:
            return [*self.subproof(m, leaves[:k], whole=whole), self.root(leaves[k:])]
        return [*self.subproof(m - k, leaves[k:], whole=False), self.root(leaves[:k])]


@pytest.fixture(scope="session")
def slow_sm3() -> Callable[[bytes], bytes]:
    """SM3 written from GB/T 32905-2016 in plain integers."""
    return _slow_sm3


@pytest.fixture(scope="session")
def slow_tree() -> SlowTree:
    """Recursive tree that shares no code with the package, the hash included."""
    return SlowTree(_slow_sm3)


@pytest.fixture(scope="session")
def recursive_tree() -> SlowTree:
    """Recursive tree over the package's hash, for sizes at which the slow hash takes too long."""
    from crypto.sm3 import sm3

    return SlowTree(sm3)
