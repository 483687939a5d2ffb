"""Sums over slots that stand in equal distances, by rotations that double."""

from __future__ import annotations

from he_chain.backends.base import Ciphertext, Evaluator
from he_chain.errors import PlanError


def sum_rotations(count: int, stride: int) -> frozenset[int]:
    """Return the rotations that `sum_blocks` needs."""
    steps = set()
    done, size = 0, 1
    while size <= count:
        if count & size:
            steps.add(done * stride)
            done += size
        size *= 2
        if size <= count:
            steps.add(size // 2 * stride)
    return frozenset(steps - {0})


def sum_blocks(ev: Evaluator, x: Ciphertext, count: int, stride: int) -> Ciphertext:
    """Return a ciphertext whose slot t is the sum of slots t + m * stride, m < count.

    It takes floor(log2 count) doublings and an addition for every further bit of the count.
    """
    doubled, total = x, None
    done, size = 0, 1
    while True:
        if count & size:
            part = ev.rotate(doubled, done * stride) if done else doubled
            total = part if total is None else ev.add(total, part)
            done += size
        size *= 2
        if size > count:
            break
        doubled = ev.add(doubled, ev.rotate(doubled, size // 2 * stride))
    if total is None:
        raise PlanError("a sum of nothing")
    return total
