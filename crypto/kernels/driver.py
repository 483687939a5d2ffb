"""Whole inputs in lanes: prefixes, padding, last blocks, and decryption piece by piece.

Scratch memory holds everything that is not in registers; the caller wipes it.
"""

from __future__ import annotations

from typing import Final

from crypto.kernels import job as layout
from crypto.kernels.sm3_lanes import BLOCK_BYTES, Compression
from crypto.kernels.sm4_lanes import KEY_WORDS, CounterMode
from simd.code import I8, I64, Code, Features, Val, vec

_DIGEST_BYTES: Final = 32
_TAIL_BYTES: Final = 2 * BLOCK_BYTES  # most that padding needs
_LENGTH_BYTES: Final = 8  # of the length in bits behind the padding
_PIECE_BYTES: Final = 4096  # of a lane that are decrypted and then hashed, from the nearest cache


class Driver:
    """Writes the function that does a job (see `crypto.kernels.job`) with one set of kernels."""

    def __init__(
        self, name: str, compression: Compression, cipher: CounterMode, features: Features | None
    ) -> None:
        """Lay out scratch memory.

        Args:
            name: unique among functions of a module.
            compression: hashes.
            cipher: decrypts.
            features: instructions that both need; None for those of the target.
        """
        self._name, self._features = name, features
        self._compression, self._cipher = compression, cipher
        self.lanes = lanes = compression.lanes
        sizes = {
            "state": 8 * 4 * lanes,
            "digests": _DIGEST_BYTES * lanes,
            "tails": _TAIL_BYTES * lanes,
            "batch": cipher.batch_bytes,
            "keys": 4 * KEY_WORDS,
            "data": 8 * lanes,
            "prefixes": 8 * lanes,
            "tail_pointers": 8 * lanes,
        }
        self._offsets: dict[str, int] = {}
        self.scratch_bytes = 0
        for part, size in sizes.items():
            self._offsets[part] = self.scratch_bytes
            self.scratch_bytes += size
        self.batch_bytes = cipher.batch_bytes
        self.piece_bytes = max(1, _PIECE_BYTES // self.batch_bytes) * self.batch_bytes

    def emit(self, code: Code, job: Val) -> None:
        """Write a call of the function that does the job at an address."""
        code.subroutine(f"{self._name}_job", self._job, job, features=self._features)

    def _part(self, code: Code, job: Val, name: str) -> Val:
        return code.word(job, layout.SCRATCH) + self._offsets[name]

    def _job(self, code: Code, job: Val) -> None:
        operation, count = code.word(job, layout.OPERATION), code.word(job, layout.COUNT)
        with code.when((operation & layout.CIPHER).differs(0)):
            keys = self._part(code, job, "keys")
            self._cipher.expand_key(code, job + 8 * layout.KEY, keys)
        with code.choose((operation & layout.HASH).differs(0)) as (hashes, only_ciphers):
            with hashes, code.loop(0, count, self.lanes) as first:
                self._hash_group(code, job, first)
            with only_ciphers, code.loop(0, count) as index:
                length = code.word(job, layout.LENGTH)
                data = self._input(code, job, index)
                self._decrypt(code, job, index, data, code.i64(0), length)

    @staticmethod
    def _input(code: Code, job: Val, index: Val) -> Val:
        """Return the address of an input."""
        pointers = code.word(job, layout.POINTERS)
        rows = code.word(job, layout.ROWS) + index * code.word(job, layout.LENGTH)
        address = code.var(rows)
        with code.when(pointers.differs(0)):
            address.set(code.load(I64, pointers + index * 8, align=8))
        return address.get()

    def _compress(self, code: Code, job: Val, pointers: str, offset: Val, blocks: Val) -> None:
        state, table = self._part(code, job, "state"), self._part(code, job, pointers)
        code.subroutine(
            f"{self._name}_compress",
            self._compression.compress,
            *(state, table, offset, blocks),
            features=self._features,
        )

    def _hash_group(self, code: Code, job: Val, first: Val) -> None:
        """Hash inputs `first` to `first + lanes - 1`; lanes without an input repeat the first."""
        left = code.word(job, layout.COUNT) - first
        used = (left < self.lanes).select(left, code.i64(self.lanes))
        self._set_pointers(code, job, first, used)
        self._compression.start(code, self._part(code, job, "state"))
        length, prefix_length = (code.word(job, n) for n in (layout.LENGTH, layout.PREFIX_LENGTH))
        self._compress(code, job, "prefixes", code.i64(0), prefix_length >> 6)
        prefix_rest = prefix_length & (BLOCK_BYTES - 1)
        ciphers = (code.word(job, layout.OPERATION) & layout.CIPHER).differs(0)
        piece = ciphers.select(code.i64(self.piece_bytes), length)
        hashed = code.var(code.i64(0))  # bytes of the inputs that went into a block
        rest = code.var(prefix_rest)  # bytes of the prefix that did not
        start = code.var(code.i64(0))
        with code.forever() as done:
            code.leave_if(start.get() >= length, done)
            end = start.get() + piece
            end = (end < length).select(end, length)
            with code.when(ciphers), code.loop(0, used) as lane:
                data = code.load(I64, self._part(code, job, "data") + lane * 8, align=8)
                self._decrypt(code, job, first + lane, data, start.get(), end)
            fits = rest.get() + end >= BLOCK_BYTES
            with code.when(rest.get().differs(0)), code.when(fits):
                self._first_block(code, job, rest.get())
                hashed.set(code.i64(BLOCK_BYTES) - rest.get())
                rest.set(code.i64(0))
            with code.when(rest.get().equals(0)):
                blocks = (end - hashed.get()) >> 6
                self._compress(code, job, "data", hashed.get(), blocks)
                hashed.set(hashed.get() + blocks * BLOCK_BYTES)
            start.set(end)
        self._last_blocks(code, job, rest.get(), hashed.get())
        digests = self._part(code, job, "digests")
        self._compression.store_digests(code, self._part(code, job, "state"), digests)
        out = code.word(job, layout.DIGESTS) + first * _DIGEST_BYTES
        code.copy(out, digests, used * _DIGEST_BYTES)

    def _set_pointers(self, code: Code, job: Val, first: Val, used: Val) -> None:
        prefix, stride = code.word(job, layout.PREFIX), code.word(job, layout.PREFIX_STRIDE)
        tables = ("data", "prefixes", "tail_pointers")
        data, prefixes, tails = (self._part(code, job, name) for name in tables)
        with code.loop(0, self.lanes) as lane:
            index = first + (lane < used).select(lane, code.i64(0))
            code.store(self._input(code, job, index), data + lane * 8, align=8)
            code.store(prefix + index * stride, prefixes + lane * 8, align=8)
            tail = self._part(code, job, "tails") + lane * _TAIL_BYTES
            code.store(tail, tails + lane * 8, align=8)

    def _lane(self, code: Code, job: Val, lane: Val) -> tuple[Val, Val, Val]:
        """Return where a lane's data, the end of its prefix and its composed blocks lie."""
        tables = ("data", "prefixes", "tail_pointers")
        data, prefix, tail = (
            code.load(I64, self._part(code, job, name) + lane * 8, align=8) for name in tables
        )
        return data, prefix + code.word(job, layout.PREFIX_LENGTH), tail

    def _first_block(self, code: Code, job: Val, rest: Val) -> None:
        """Compress the block in which the prefix ends and the data begin."""
        with code.loop(0, self.lanes) as lane:
            data, prefix_end, block = self._lane(code, job, lane)
            code.copy(block, prefix_end - rest, rest)
            code.copy(block + rest, data, code.i64(BLOCK_BYTES) - rest)
        self._compress(code, job, "tail_pointers", code.i64(0), code.i64(1))

    def _last_blocks(self, code: Code, job: Val, rest: Val, hashed: Val) -> None:
        """Compress what is left, padded (section 5.2 of the standard)."""
        length = code.word(job, layout.LENGTH)
        bits = (code.word(job, layout.PREFIX_LENGTH) + length) << 3
        left = length - hashed
        filled = rest + left
        needs_two = (filled + (1 + _LENGTH_BYTES)) > BLOCK_BYTES
        blocks = needs_two.select(code.i64(2), code.i64(1))
        with code.loop(0, self.lanes) as lane:
            data, prefix_end, block = self._lane(code, job, lane)
            code.store(code.const(vec(I8, _TAIL_BYTES), 0), block)
            code.copy(block, prefix_end - rest, rest)
            code.copy(block + rest, data + hashed, left)
            code.store(code.const(I8, 0x80), block + filled)
            code.store(
                code.overloaded("llvm.bswap", bits), block + blocks * BLOCK_BYTES - _LENGTH_BYTES
            )
        self._compress(code, job, "tail_pointers", code.i64(0), blocks)

    def _decrypt(self, code: Code, job: Val, index: Val, data: Val, start: Val, end: Val) -> None:
        """Decrypt bytes `start` to `end` of an input; `start` is a multiple of a block."""
        counters = code.word(job, layout.COUNTERS) + index * 16
        high, low = code.word(counters, 0), code.word(counters, 1)
        keys, batch = self._part(code, job, "keys"), self._part(code, job, "batch")
        code.subroutine(
            f"{self._name}_decrypt",
            self._decrypt_bytes,
            *(data + start, end - start, high, low, start >> 4, keys, batch),
            features=self._features,
        )

    def _decrypt_bytes(
        self,
        code: Code,
        address: Val,
        size: Val,
        high: Val,
        low: Val,
        block: Val,
        keys: Val,
        batch: Val,
    ) -> None:
        """Decrypt whole batches where they lie, and what is left in scratch memory."""
        cipher = self._cipher

        def run(at: Val, after: Val, batches: Val) -> None:
            """Decrypt, starting `after` blocks behind the initial one."""
            sum_low = low + after
            sum_high = high + sum_low.below(low).zext(I64)
            code.subroutine(
                f"{self._name}_blocks",
                cipher.blocks,
                *(at, sum_high, sum_low, keys, batches),
                features=self._features,
            )

        batches = size // cipher.batch_bytes
        run(address, block, batches)
        whole = batches * cipher.batch_bytes
        left = size - whole
        with code.when(left > 0):
            code.copy(batch, address + whole, left)
            run(batch, block + batches * cipher.batch_blocks, code.i64(1))
            code.copy(address + whole, batch, left)
