"""SM3 (GB/T 32905-2016): from hashlib where it has it, in plain Python elsewhere."""

from __future__ import annotations

import hashlib

_START = (
    0x7380166F, 0x4914B2B9, 0x172442D7, 0xDA8A0600, 0xA96F30BC, 0x163138AA, 0xE38DEE4D, 0xB0FB0E4E,
)  # fmt: skip
_MASK = 0xFFFFFFFF


def _rotate(word: int, by: int) -> int:
    return (word << by | word >> (32 - by)) & _MASK


_CONSTANTS = [_rotate(0x79CC4519 if j < 16 else 0x7A879D8A, j % 32) for j in range(64)]


def _compress(state: tuple[int, ...], block: bytes) -> tuple[int, ...]:
    w = [int.from_bytes(block[at : at + 4], "big") for at in range(0, 64, 4)]
    for j in range(16, 68):
        x = w[j - 16] ^ w[j - 9] ^ _rotate(w[j - 3], 15)
        w.append(x ^ _rotate(x, 15) ^ _rotate(x, 23) ^ _rotate(w[j - 13], 7) ^ w[j - 6])
    a, b, c, d, e, f, g, h = state
    for j in range(64):
        a12 = _rotate(a, 12)
        ss1 = _rotate((a12 + e + _CONSTANTS[j]) & _MASK, 7)
        if j < 16:
            ff, gg = a ^ b ^ c, e ^ f ^ g
        else:
            ff, gg = a & b | a & c | b & c, e & f | ~e & g
        tt1 = (ff + d + (ss1 ^ a12) + (w[j] ^ w[j + 4])) & _MASK
        tt2 = (gg + h + ss1 + w[j]) & _MASK
        a, b, c, d = tt1, a, _rotate(b, 9), c
        e, f, g, h = tt2 ^ _rotate(tt2, 9) ^ _rotate(tt2, 17), e, _rotate(f, 19), g
    return tuple(x ^ y for x, y in zip(state, (a, b, c, d, e, f, g, h), strict=True))


def plain(*parts: bytes) -> bytes:
    """Return the hash of the joined parts, 32 bytes, computed in Python."""
    message = b"".join(parts)
    length = (8 * len(message)).to_bytes(8, "big")
    message += b"\x80" + bytes(-(len(message) + 9) % 64) + length
    state: tuple[int, ...] = _START
    for at in range(0, len(message), 64):
        state = _compress(state, message[at : at + 64])
    return b"".join(word.to_bytes(4, "big") for word in state)


try:
    _EMPTY = hashlib.new("sm3")
except ValueError:  # an OpenSSL without it
    SOURCE = "python"
    sm3 = plain
else:
    SOURCE = "hashlib"

    def sm3(*parts: bytes) -> bytes:
        """Return the hash of the joined parts, 32 bytes."""
        state = _EMPTY.copy()
        for part in parts:
            state.update(part)
        return state.digest()


def labelled(label: str, *parts: bytes) -> bytes:
    """Return SM3(label || 00 || parts)."""
    return sm3(label.encode("ascii"), b"\0", *parts)
