"""What a statement says without telling it: salted commitments, and the seed of a nonce.

Source: verifier/SPEC.md section 2.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final

from crypto.labels import COMMITMENT, SEED
from crypto.sm3 import sm3

NAMES: Final = ("request", "prompt_ids", "transcript", "output_ids", "trace")
SALT_BYTES: Final = 32
MAX_ID: Final = (1 << 32) - 1

_SEED_BYTES: Final = 8


def new_salt() -> bytes:
    """Return 32 random bytes; every commitment takes its own."""
    return secrets.token_bytes(SALT_BYTES)


def commitment(name: str, salt: bytes, data: bytes) -> bytes:
    """Return the 32 bytes that bind to `data` and, without the salt, tell nothing of it.

    Args:
        name: what it is, one of `NAMES`.
        salt: 32 random bytes that nothing else uses.
        data: what is committed to, less than 2^64 bytes.

    Raises:
        ValueError: another name, or a salt of another length.
    """
    if name not in NAMES:
        raise ValueError("no commitment has this name")
    if len(salt) != SALT_BYTES:
        raise ValueError("a salt has 32 bytes")
    start = COMMITMENT + name.encode("ascii") + b"\x00"
    return sm3(b"".join((start, salt, len(data).to_bytes(8, "little"), data)))


def ids_bytes(ids: Sequence[int]) -> bytes:
    """Return token ids as they are committed to: each as u32, little-endian.

    Raises:
        OverflowError: an id that does not fit.
    """
    return b"".join(number.to_bytes(4, "little") for number in ids)


def request_bytes(path: str, body: bytes) -> bytes:
    """Return a request as it is committed to: the endpoint's path, a zero byte, the body.

    Raises:
        ValueError: a path that is not ASCII, or has a zero byte.
    """
    if "\x00" in path:
        raise ValueError("a path has no zero byte")
    return path.encode("ascii") + b"\x00" + body


def seed_of_nonce(nonce: bytes) -> int:
    """Return the seed, 0 .. 2^64 - 1, of a request that gives a nonce and no seed."""
    return int.from_bytes(sm3(SEED + nonce)[:_SEED_BYTES], "little")
