"""Whose turn it is: queues of several owners, and a budget shared between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from collections.abc import Sequence as SequenceOf

from engine.sequence import Sequence


def fair_shares(wanted: SequenceOf[int], budget: int) -> list[int]:
    """Share a budget so that nobody gets more while another who wants it has less.

    What does not divide goes to those who stand first.
    """
    given = [0] * len(wanted)
    hungry = [index for index, amount in enumerate(wanted) if amount > 0]
    while budget > 0 and hungry:
        share = max(1, budget // len(hungry))
        for index in hungry:
            part = min(share, wanted[index] - given[index], budget)
            given[index] += part
            budget -= part
        hungry = [index for index in hungry if given[index] < wanted[index]]
    return given


class Turns:
    """Waiting sequences, one queue an owner, first come first served inside each.

    Owners take turns: whose sequence was taken goes to the end. A queue whose first sequence cannot
    begin yet is passed over, but not for ever: after `patience` others have begun in its place, its
    first sequence is the only one that may begin (rule Q3 of engine/kv/README.md).
    """

    def __init__(self, patience: int) -> None:
        """Start without sequences; `patience` is at least 0."""
        self._patience = patience
        self._queues: dict[bytes, deque[Sequence]] = {}  # in the order of turns
        self._passed_over: dict[bytes, int] = {}  # of the first sequence of a queue

    def __len__(self) -> int:
        """Return how many wait, also those that have ended since the last `remove_finished`."""
        return sum(map(len, tuple(self._queues.values())))

    def __iter__(self) -> Iterator[Sequence]:
        """Yield all, owner by owner."""
        for queue in self._queues.values():
            yield from queue

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence behind those of its owner."""
        self._queues.setdefault(sequence.owner, deque()).append(sequence)

    def take(
        self, may_begin: Callable[[bytes], bool], fits: Callable[[Sequence], bool]
    ) -> Sequence | None:
        """Remove and return the next that fits and whose turn it is, or None.

        Args:
            may_begin: whether an owner is asked at all; one who is not is not passed over either.
            fits: whether a sequence can begin now.
        """
        passed: list[bytes] = []
        for owner in self._owners_to_ask(may_begin):
            sequence = self._queues[owner][0]
            if fits(sequence):
                for other in passed:
                    self._passed_over[other] = self._passed_over.get(other, 0) + 1
                self._leave(owner)
                return sequence
            passed.append(owner)
        return None

    def take_first(self) -> Sequence | None:
        """Remove and return the one that is asked first, or None."""
        for owner in self._owners_to_ask(lambda _owner: True):
            sequence = self._queues[owner][0]
            self._leave(owner)
            return sequence
        return None

    def remove_finished(self) -> None:
        """Drop what has ended while it waited."""
        for owner, queue in list(self._queues.items()):
            first = queue[0]
            left = deque(s for s in queue if not s.is_finished)
            self._queues[owner] = left
            if not left:
                del self._queues[owner]
            if not left or left[0] is not first:
                self._passed_over.pop(owner, None)

    def _owners_to_ask(self, may_begin: Callable[[bytes], bool]) -> list[bytes]:
        """Return owners in the order of turns, or the first who has been patient long enough."""
        owners = [owner for owner in self._queues if may_begin(owner)]
        for owner in owners:
            if self._passed_over.get(owner, 0) >= self._patience:
                return [owner]
        return owners

    def _leave(self, owner: bytes) -> None:
        """Remove an owner's first sequence; the owner goes to the end of the turns."""
        queue = self._queues.pop(owner)
        queue.popleft()
        self._passed_over.pop(owner, None)
        if queue:
            self._queues[owner] = queue
