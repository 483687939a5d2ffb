"""Known numbers in slots that are free: whoever decrypts sees whether the rest can be right.

A value that does not fit a ciphertext wraps around in one coefficient and moves every slot; another
key, another hop's ciphertext or another cache moves them too. The number is a function of where in
a run it stands and is no secret.
"""

from __future__ import annotations

from typing import Final

from crypto.cbor import encode
from crypto.labels import HE_CANARY
from crypto.sm3 import sm3
from he_chain.errors import RangeError

TOLERANCE: Final = 2.0**-10
_STEPS: Final = 256


def canary(run: bytes, kind: str, position: int, layer: int) -> float:
    """Return the number of one place in a run: one of 2^16 from 1 to 257."""
    digest = sm3(HE_CANARY + encode([run, kind, position, layer]))
    return 1.0 + int.from_bytes(digest[:2], "big") / _STEPS


def check_canary(found: float, wanted: float, what: str) -> None:
    """Compare a decrypted canary.

    Raises:
        RangeError: a value wrapped around, or the ciphertext is not the one that was due. The text
            tells nothing that was decrypted.
    """
    if not abs(found - wanted) < TOLERANCE:
        raise RangeError(
            f"the canary of {what} is gone: out of range, another key, or a stale ciphertext"
        )
