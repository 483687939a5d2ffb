"""Leaf hashes of the trace (NUMERICS N11), made within a step from the residual rows themselves.

The hash function is compiled by `crypto.kernels`; this kernel calls it by address, as many rows at
a time as it has lanes. It finds what it needs in a table of words:

    0 address of the function      1 its lanes               2 address of the first thread's job
    3 bytes from one job to next   4 address of the prefix   5 bytes of the prefix

A job (`crypto.kernels.job`) belongs to one thread. Its words that are not written here are zero:
the inputs are rows with one prefix, and nothing is decrypted.
"""

from __future__ import annotations

from typing import Final

from llvmlite import ir

from crypto.kernels import job as layout
from engine.kernels.program import STEP_HASHER, STEP_LEAVES, STEP_ROWS, argument, grab
from simd.code import I64, Code, Val

ENTRY, LANES, JOBS, JOB_BYTES, PREFIX, PREFIX_BYTES = range(6)
TABLE_WORDS: Final = 6
_DIGEST_BYTES: Final = 32


def emit_hash_leaves(code: Code, instruction: Val, step: Val, thread: Val) -> None:
    """Hash residual rows for the trace, if their hashes are wanted.

    Arguments: layer, row size, residual. The result is u8[layers + 1, rows, 32].
    """
    layer, size = argument(code, instruction, 0), argument(code, instruction, 1)
    x, rows = argument(code, instruction, 2), code.word(step, STEP_ROWS)
    leaves, table = code.word(step, STEP_LEAVES), code.word(step, STEP_HASHER)
    with code.when(leaves.differs(0)):
        job = code.word(table, JOBS) + thread * code.word(table, JOB_BYTES)
        row_bytes = size * 4
        function_type = ir.FunctionType(I64, [I64]).as_pointer()
        entry = code.builder.inttoptr(code.word(table, ENTRY).ir, function_type)
        lanes = code.word(table, LANES)
        with grab(code, instruction, rows, lanes) as (begin, end):
            for word, value in (
                (layout.OPERATION, code.i64(layout.HASH)),
                (layout.COUNT, end - begin),
                (layout.LENGTH, row_bytes),
                (layout.ROWS, x + begin * row_bytes),
                (layout.PREFIX, code.word(table, PREFIX)),
                (layout.PREFIX_LENGTH, code.word(table, PREFIX_BYTES)),
                (layout.DIGESTS, leaves + (layer * rows + begin) * _DIGEST_BYTES),
                (layout.SCRATCH, job + 8 * layout.WORDS),
            ):
                code.store(value, job + 8 * word, align=8)
            code.builder.call(entry, [job.ir])
