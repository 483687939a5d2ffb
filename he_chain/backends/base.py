"""What the chain needs of a CKKS library: one interface for the key holder, one for the evaluator.

Nothing here is done on the side: no automatic rescale, no automatic relinearisation at another
place, no change of a scale to make it fit. Operands are never changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from he_chain.parameters import Parameters

Values = NDArray[np.float64]


class Ciphertext(Protocol):
    """Encrypted values of all slots."""

    @property
    def level(self) -> int:
        """How many rescales it still bears."""

    @property
    def scale(self) -> float:
        """What its values were multiplied with, exact as a binary64."""


class Plain(Protocol):
    """Encoded values of all slots."""

    @property
    def level(self) -> int:
        """The level of the ciphertexts that it fits."""

    @property
    def scale(self) -> float:
        """As of a ciphertext."""


class Evaluator(Protocol):
    """Computes on ciphertexts with evaluation keys; can decrypt nothing."""

    parameters: Parameters
    primes: tuple[int, ...]
    """primes[l] is what a rescale at level l divides by; primes[0] is the one that stays."""
    counts: Counter[str]
    """Operations so far: rotations, ct_pt, ct_ct, rescales, encodes."""

    def encode(self, values: Values | float, level: int, scale: float) -> Plain:
        """Encode float64[num_slots], or one value for all slots.

        Raises:
            RangeError: |value| * scale does not fit the level's modulus.
        """

    def add(self, x: Ciphertext, y: Ciphertext) -> Ciphertext:
        """Return x + y, at the lower of their levels.

        Raises:
            ScaleError: their scales differ by more than 2^-40 of either.
            LevelError: the scale does not fit the lower level.
            RangeError: what hides the values cancels out, as in x - x.
        """

    def sub(self, x: Ciphertext, y: Ciphertext) -> Ciphertext:
        """Return x - y; as `add`."""

    def add_plain(self, x: Ciphertext, y: Plain) -> Ciphertext:
        """Return x + y of one level and scale."""

    def sub_plain(self, x: Ciphertext, y: Plain) -> Ciphertext:
        """Return x - y of one level and scale."""

    def mul_plain(self, x: Ciphertext, y: Plain) -> Ciphertext:
        """Return x * y, its scale the product of theirs; an all-zero y is refused (RangeError)."""

    def mul(self, x: Ciphertext, y: Ciphertext) -> Ciphertext:
        """Return x * y, relinearised, at the lower of their levels, the scale their product."""

    def rescale(self, x: Ciphertext) -> Ciphertext:
        """Divide by primes[level] and go down one level.

        Raises:
            LevelError: it is at level 0.
        """

    def to_level(self, x: Ciphertext, level: int) -> Ciphertext:
        """Drop primes until it is at a level, which changes no value.

        Raises:
            LevelError: it is below that already.
        """

    def rotate(self, x: Ciphertext, steps: int) -> Ciphertext:
        """Return slots moved to the left: slot i of the result is slot i + steps.

        Raises:
            BackendError: there is no key for that many steps.
        """

    def dump(self, x: Ciphertext) -> bytes:
        """Return it as bytes."""

    def load(self, data: bytes) -> Ciphertext:
        """Read what `dump` wrote, or a holder.

        Raises:
            ProtocolError: it is damaged, or of other parameters.
        """


class Holder(Protocol):
    """Has the secret key."""

    parameters: Parameters

    def encrypt(self, values: Values, level: int | None = None) -> bytes:
        """Encrypt float64[num_slots] at the scale of the parameters, as `Evaluator.load` reads.

        Raises:
            RangeError: a value is not finite or does not fit.
        """

    def decrypt(self, data: bytes) -> Values:
        """Return float64[num_slots] of what `Evaluator.dump` wrote.

        Raises:
            ProtocolError: it is damaged, or of other parameters.
        """

    def write_evaluation_keys(self, folder: Path, rotations: Collection[int]) -> int:
        """Write what an evaluator needs, for these rotations and no others; return the bytes."""

    def save(self, folder: Path) -> None:
        """Write the secret key, readable by its owner only."""
