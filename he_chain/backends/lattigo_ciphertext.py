"""The bytes of a Lattigo ciphertext, looked at before the library does.

Lattigo 6.2.0 recurses until its stack is full, and ends the process, on a ciphertext that is cut
short; so every ciphertext's structure is checked here first.

    1 | JSON of scale and shape | number of polynomials | for each: number of rows | for each row:
    number of coefficients | coefficients; numbers are 8 bytes, little-endian
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

import numpy as np

from he_chain.errors import ProtocolError

_MAX_TEXT: Final = 4096
_WORD: Final = 8


@dataclass(frozen=True)
class CiphertextShape:
    """What a ciphertext says about itself."""

    level: int
    scale: float


def ciphertext_shape(
    unverified_data: bytes, ring_degree: int, primes: tuple[int, ...]
) -> CiphertextShape:
    """Check a ciphertext's structure and that every coefficient is below its prime.

    Args:
        unverified_data: a ciphertext of two polynomials.
        ring_degree: N.
        primes: of the chain, the one of level 0 first.

    Raises:
        ProtocolError: it is damaged, or of other parameters.
    """
    damaged = ProtocolError("a ciphertext is damaged, or of other parameters")
    if unverified_data[:1] != b"\x01":
        raise damaged
    text = unverified_data[1:_MAX_TEXT].decode("latin-1")
    try:
        value, end = json.JSONDecoder().raw_decode(text)
        plain, cipher = value["PlaintextMetaData"], value["CiphertextMetaData"]
        scale = float(plain["Scale"]["Value"])
        sound = (
            1.0 < scale < 2.0**120
            and float(plain["Scale"]["Mod"]) == 0.0
            and plain["IsBatched"] == "0x01"
            and plain["IsBitReversed"] == "0x00"
            and plain["LogDimensions"] == ["0x00", f"0x{ring_degree.bit_length() - 2:02x}"]
            and cipher == {"IsNTT": "0x01", "IsMontgomery": "0x00"}
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        raise damaged from None
    body = unverified_data[1 + end :]
    poly_words = len(body) // _WORD - 1
    if not sound or len(body) % _WORD or poly_words <= 0 or poly_words % 2:
        raise damaged
    words = np.frombuffer(body, "<u8")
    rows, rest = divmod(poly_words // 2 - 1, ring_degree + 1)
    if words[0] != 2 or rest or not 1 <= rows <= len(primes):
        raise damaged
    for poly in words[1:].reshape(2, -1):
        table = poly[1:].reshape(rows, ring_degree + 1)
        in_range = table[:, 1:] < np.array(primes[:rows], np.uint64)[:, None]
        if poly[0] != rows or (table[:, 0] != ring_degree).any() or not in_range.all():
            raise damaged
    return CiphertextShape(rows - 1, scale)
