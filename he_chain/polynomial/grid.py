"""Where the values of a polynomial layer stand, so that no sum needs a mask.

Slot ((r * J + j) * T + t) * H + h: dimension j of head h at cache position t; J and T are powers of
two, H the number of heads rounded up to one, and r repeats everything until the slots are full.
A sum over an index by rotations carries into the index before it. That does no harm where the
values do not depend on that one, or where it is the repetition, and the order is chosen so:

- over j (q k, and the channels of a norm): carries into r, over which everything repeats;
- over h (the channels of a norm): carries into t, over which the residual is constant;
- over t (weights of a softmax): carries into j, over which scores are constant once they are summed
  over it.

Only the sum over t of weights times values has its result at t = 0 and nowhere else; the next
product reads it there. Channel c of the residual stands at h = c // J, j = c % J for every t.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from he_chain.backends.base import Ciphertext, Evaluator, Values
from he_chain.errors import PlanError

Slots = NDArray[np.int64]


@dataclass(frozen=True)
class Grid:
    """A layout; all four sizes are powers of two."""

    repeats: int
    head_dim: int
    positions: int
    heads: int
    """Heads with room for more: H."""

    @property
    def num_slots(self) -> int:
        """Slots that it fills."""
        return self.repeats * self.period

    @property
    def period(self) -> int:
        """Slots after which everything repeats."""
        return self.head_dim * self.positions * self.heads

    @property
    def block(self) -> int:
        """Slots from a dimension of a head to the next one."""
        return self.positions * self.heads

    def index(self) -> tuple[Slots, Slots, Slots, Slots]:
        """Return r, j, t, h of every slot: int64[num_slots] each."""
        slot = np.arange(self.num_slots)
        heads = slot % self.heads
        times = slot // self.heads % self.positions
        dims = slot // self.block % self.head_dim
        return slot // self.period, dims, times, heads

    def channels(self, count: int) -> Slots:
        """Return the channel that stands in every slot, -1 for none: int64[num_slots]."""
        _, dims, _, heads = self.index()
        channel = heads * self.head_dim + dims
        return np.where(channel < count, channel, -1)

    def hidden(self, count: int) -> Slots:
        """Return where a feed-forward layer's values stand, -1 elsewhere: int64[num_slots].

        They fill the dimensions of all repetitions first, then the lower half of the heads, then
        positions: nothing repeats. The upper half is for a second vector of as many.

        Raises:
            PlanError: there is no room.
        """
        repeat, dims, times, heads = self.index()
        wide, half = self.repeats * self.head_dim, self.heads // 2
        value = repeat * self.head_dim + dims + wide * (heads + half * times)
        room = wide * half * self.positions
        if count > room:
            raise PlanError(f"{count} values of a feed-forward layer, there is room for {room}")
        return np.where((heads < half) & (value < count), value, -1)

    def hidden_times(self, count: int) -> int:
        """Return how many positions `hidden` uses, rounded up to a power of two."""
        used = -(-count // (self.repeats * self.head_dim * (self.heads // 2)))
        return 1 << (used - 1).bit_length()

    def spread(self, values: Values) -> Values:
        """Return float64[num_slots] of a residual float64[channels]."""
        channel = self.channels(len(values))
        return np.where(channel >= 0, values[channel], 0.0)

    def gather(self, slots: Values, count: int) -> Values:
        """Return float64[channels] of float64[num_slots]: what stands at r = 0, t = 0."""
        channel = np.arange(count)
        found: Values = slots[channel % self.head_dim * self.block + channel // self.head_dim]
        return found

    def channel_rotations(self) -> tuple[int, ...]:
        """Return the rotations of `sum_up` over j and h."""
        return (*self.dim_rotations(), *_doublings(1, self.heads))

    def dim_rotations(self) -> tuple[int, ...]:
        """Return the rotations of `sum_up` over j."""
        return _doublings(self.block, self.head_dim)

    def time_rotations(self) -> tuple[int, ...]:
        """Return the rotations of `sum_up` over t."""
        return _doublings(self.heads, self.positions)

    def repeat_rotations(self) -> tuple[int, ...]:
        """Return the rotations of `sum_up` over r."""
        return _doublings(self.period, self.repeats)

    def spread_rotations(self) -> tuple[int, ...]:
        """Return the rotations of `sum_up` that copy t = 0 to all t, where these are zero."""
        return tuple(-steps for steps in self.time_rotations())


def make_grid(num_slots: int, *, head_dim: int, heads: int, channels: int) -> Grid:
    """Return the grid of a model with the most positions that are useful.

    Positions are as many as fit, at most 16, with room for all channels.

    Raises:
        PlanError: the head's dimension is no power of two, or nothing fits.
    """
    if head_dim < 2 or head_dim & (head_dim - 1):
        raise PlanError(f"heads of {head_dim} dimensions: only powers of two have a grid")
    wanted = max(2, heads, -(-channels // head_dim))
    room = 1 << (wanted - 1).bit_length()
    positions = min(16, num_slots // (head_dim * room))
    if positions < 1:
        message = f"{num_slots} slots do not hold {room} heads of {head_dim} dimensions"
        raise PlanError(message)
    repeats = num_slots // (head_dim * room * positions)
    return Grid(repeats, head_dim, positions, room)


def sum_up(evaluator: Evaluator, x: Ciphertext, rotations: tuple[int, ...]) -> Ciphertext:
    """Return x plus itself rotated, once for each of the rotations in turn."""
    for steps in rotations:
        x = evaluator.add(x, evaluator.rotate(x, steps))
    return x


def _doublings(stride: int, count: int) -> tuple[int, ...]:
    """Return stride, 2 stride, 4 stride, ... below count * stride; count is a power of two."""
    return tuple(stride << i for i in range(count.bit_length() - 1))
