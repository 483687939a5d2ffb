"""Changes to the bytes of a request, drawn from a seed."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PIECES = (
    *(b"\r\n", b"\n", b"\r", b"\x00", b" ", b"\t", b":", b",", b";", b"\xff", b"%", b"\x0b", b"_"),
    *(b"\r\n\r\n", b"HTTP/1.1", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n"),
    *(
        b"Host: x\r\n",
        b"\r\n ",
        b"0\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"Expect: 100-continue\r\n",
    ),
)


class Draws:
    """Numbers that follow from a seed, the same everywhere."""

    def __init__(self, seed: str) -> None:
        """Start."""
        self._stream = self._bytes(seed)

    @staticmethod
    def _bytes(seed: str) -> Iterator[int]:
        number = 0
        while True:
            yield from hashlib.sha256(f"{seed}/{number}".encode()).digest()
            number += 1

    def below(self, limit: int) -> int:
        """Return a number from 0 up to the limit, without it."""
        value = 0
        for _ in range(4):
            value = value << 8 | next(self._stream)
        return value % limit


def mutated(data: bytes, draws: Draws) -> bytes:
    """Return the bytes with one to three of them changed, removed, doubled or added."""
    changed = bytearray(data)
    for _ in range(1 + draws.below(3)):
        if not changed:
            break
        place = draws.below(len(changed))
        match draws.below(7):
            case 0:
                changed[place] = draws.below(256)
            case 1:
                changed[place] ^= 1 << draws.below(8)
            case 2:
                del changed[place]
            case 3:
                changed.insert(place, draws.below(256))
            case 4:
                piece = PIECES[draws.below(len(PIECES))]
                changed[place:place] = piece
            case 5:
                del changed[place : place + draws.below(20)]
            case _:
                end = place + draws.below(20)
                changed[place:place] = changed[place:end]
    return bytes(changed)


def body_of(data: bytes) -> bytes | None:
    """Return the body that a plain reading finds; None where there is no single length."""
    head, end, rest = data.lstrip().partition(b"\r\n\r\n")
    lengths = [
        line.partition(b":")[2].strip(b" \t")
        for line in head.split(b"\r\n")[1:]
        if line.partition(b":")[0].lower() == b"content-length"
    ]
    if not end or len(lengths) != 1 or not lengths[0].isdigit():
        return None
    return rest[: int(lengths[0])]
