"""What a call is to do: words of int64 that compiled code reads.

A: address of. n: number of inputs.

| word | | word | |
| --- | --- | --- | --- |
| 0 | operation: CIPHER, HASH or both | 1 | n |
| 2 | bytes of each input | 3 | A the inputs' addresses, i64[n]; 0: they are rows |
| 4 | A the first row | 5 | A the prefixes |
| 6 | bytes from one prefix to the next | 7 | bytes of a prefix |
| 8 | A the digests, u8[n, 32] | 9 | A the counters, i64[n, 2]: high half, low half |
| 10 | A scratch memory | 12 .. 13 | the key |
"""

from __future__ import annotations

from typing import Final

(
    OPERATION,
    COUNT,
    LENGTH,
    POINTERS,
    ROWS,
    PREFIX,
    PREFIX_STRIDE,
    PREFIX_LENGTH,
    DIGESTS,
    COUNTERS,
    SCRATCH,
) = range(11)
KEY: Final = 12
WORDS: Final = 16
CIPHER: Final = 1
HASH: Final = 2
