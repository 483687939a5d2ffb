"""SM4 in counter mode on many blocks at once.

Source: GB/T 32907-2016. A vector holds one word of `lanes` blocks; a group is four vectors, the
state of its blocks. Rounds wait for each other, so several groups go through them together.
"""

from __future__ import annotations

from typing import Final

from crypto.kernels.lanes import as_words, swap_bytes, transpose, words
from crypto.kernels.sm4_machines import Machine
from simd.code import I8, I32, I64, Code, Val, Var, vec

KEY_WORDS: Final = 32
_FK: Final = (0xA3B1BAC6, 0x56AA3350, 0x677D9197, 0xB27022DC)
_BLOCK_BYTES: Final = 16


class CounterMode:
    """Writes the key schedule and the cipher for one machine."""

    def __init__(self, machine: Machine, lanes: int, groups: int) -> None:
        """Use a machine on `groups` groups of `lanes` blocks."""
        self._machine = machine
        self._lanes, self._groups = lanes, groups
        self._quarters = lanes // 4
        self.batch_blocks = lanes * groups
        self.batch_bytes = self.batch_blocks * _BLOCK_BYTES

    def expand_key(self, code: Code, key: Val, keys: Val) -> None:
        """Write the round keys, as the rounds add them.

        Args:
            code: where to write.
            key: address of 16 bytes.
            keys: address of u32[32].
        """
        machine = self._machine
        enter = machine.maps.enter
        offset = code.const(words(self._lanes), enter.constant * 0x01010101)
        k = []
        for n, fk in enumerate(_FK):
            loaded = code.load(I32, key + 4 * n).splat(self._lanes)
            k.append(code.var(swap_bytes(loaded) ^ fk))
        # Byte j of CK_i is 7 (4 i + j), of a big-endian word.
        first = [7 * (3 - j % 4) for j in range(4 * self._lanes)]
        ck = code.var(code.table(vec(I8, 4 * self._lanes), first))
        with code.loop(0, KEY_WORDS, 4) as i:
            for r in range(4):
                x = k[(r + 1) % 4].get() ^ k[(r + 2) % 4].get() ^ k[(r + 3) % 4].get()
                entered = machine.linear(code, x ^ as_words(ck.get()), enter) ^ offset
                (y,) = machine.substitute(code, entered, [machine.maps.exit])
                y = machine.place(y, 0)
                k[r].set(k[r].get() ^ y ^ y.rotate_left(13) ^ y.rotate_left(23))
                ck.set(ck.get() + 28)
                round_key = machine.linear(code, k[r].get(), enter) ^ offset
                code.store(round_key.lane(0), keys + i * 4 + 4 * r)

    def blocks(
        self, code: Code, address: Val, high: Val, low: Val, keys: Val, batches: Val
    ) -> None:
        """Encrypt or decrypt batches of `batch_blocks` blocks in place.

        Args:
            code: where to write.
            address: of the data, any.
            high: the upper half of the first counter.
            low: the lower half.
            keys: what `expand_key` wrote.
            batches: how many.
        """
        counter = code.var(high), code.var(low)
        with code.loop(0, batches) as batch:
            high, low = counter[0].get(), counter[1].get()
            state = self._states(code, high, low)
            with code.loop(0, KEY_WORDS, 4) as i:
                self._four_rounds(code, state, keys + i * 4)
            self._add_to_data(code, state, address + batch * self.batch_bytes)
            following = low + self.batch_blocks
            counter[1].set(following)
            counter[0].set(high + following.below(low).zext(I64))

    def _states(self, code: Code, high: Val, low: Val) -> list[list[Var]]:
        """Return the counters as the rounds take them, [group][word]."""
        kind = words(self._lanes)
        upper = [(high >> 32), high, (low >> 32), low]
        split = [word.trunc(I32).splat(self._lanes) for word in upper]
        state = [[code.var(word) for word in split] for _ in range(self._groups)]
        # Lanes are numbered so that transposing the result puts its blocks in order.
        order = [self._quarters * (n % 4) + n // 4 for n in range(self._lanes)]
        enter = self._machine.maps.enter
        offsets = [
            code.table(kind, [group * self._lanes + n for n in order])
            for group in range(self._groups)
        ]
        room = (low & 0xFFFFFFFF).below(0x1_0000_0000 - self.batch_blocks)
        with code.choose(room) as (same, carries):
            with same:
                shared = [self._machine.linear(code, word, enter) for word in split[:3]]
                for group, offset in zip(state, offsets, strict=True):
                    for n, value in enumerate(shared):
                        group[n].set(value)
                    group[3].set(self._machine.linear(code, split[3] + offset, enter))
            with carries:
                for group, offset in zip(state, offsets, strict=True):
                    value = split[3] + offset
                    group[3].set(self._machine.linear(code, value, enter))
                    carry = value.below(offset).zext(kind)
                    for n in (2, 1, 0):
                        value = split[n] + carry
                        group[n].set(self._machine.linear(code, value, enter))
                        carry = value.below(carry).zext(kind)
        return state

    def _four_rounds(self, code: Code, state: list[list[Var]], keys: Val) -> None:
        machine = self._machine
        maps = [machine.maps.v, machine.maps.w]
        x = [[word.get() for word in group] for group in state]
        middle: list[Val] = []
        for r in range(4):
            key = code.load(I32, keys + 4 * r, align=4).splat(self._lanes)
            if r % 2 == 0:  # the sum of these two serves two rounds
                middle = [g[(r + 2) % 4] ^ g[(r + 3) % 4] for g in x]
            for g, m in zip(x, middle, strict=True):
                t = m ^ g[(r + 1 + 2 * (r % 2)) % 4] ^ key
                v, w = machine.substitute(code, t, maps)
                mixed = machine.place(v, 1) ^ machine.place(v, 2) ^ machine.place(v ^ w, 3)
                g[r] = (g[r] ^ machine.place(w, 0)) ^ mixed
        for group, values in zip(state, x, strict=True):
            for word, value in zip(group, values, strict=True):
                word.set(value)

    def _add_to_data(self, code: Code, state: list[list[Var]], address: Val) -> None:
        machine = self._machine
        for number, group in enumerate(state):
            left = [machine.linear(code, w.get(), machine.maps.leave) for w in reversed(group)]
            columns = transpose([swap_bytes(word) for word in left])
            for k, column in enumerate(columns):
                at = address + _BLOCK_BYTES * (number * self._lanes + self._quarters * k)
                code.store(code.load(column.type, at) ^ column, at)
