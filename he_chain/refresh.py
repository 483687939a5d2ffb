"""The strict protocol: the key holder decrypts x + r and encrypts it again, and does nothing else.

The evaluator draws r anew for every slot of every ciphertext, uniform in +-2^b, adds it before and
subtracts it after. What the key holder sees of a value in [-X, X] is then within X / 2^b, in
statistical distance, of what it would see of any other; of a ciphertext of n slots, n X / 2^b.
That is blinding of so many bits, never a perfect one, and it is between honest sides: whoever
encrypts something else than what it decrypted is found out by the comparison with the plaintext
only.

The ciphertext has to have room: where x + r could reach a quarter of its modulus the evaluator
refuses before anything is sent. A ciphertext at level 1 or above has room for more bits.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from he_chain.backends.base import Ciphertext, Evaluator, Holder, Values
from he_chain.errors import PlanError, ProtocolError, RangeError

Ask: TypeAlias = Callable[[bytes, int], bytes]
"""Takes a blinded ciphertext and the level that is wanted, returns the key holder's answer."""

MAX_BITS: Final = 30
"""Above, the key holder's binary64 would round x + r by more than the noise of a value."""
_FRACTION_BITS: Final = 53
_SLACK: Final = 2.0**-8


@dataclass(frozen=True)
class Blinding:
    """How well a refreshed ciphertext was hidden."""

    bits: int
    bound: float
    """Of the values, by the plan's calibration."""
    num_slots: int

    @property
    def distance(self) -> float:
        """Statistical distance between what two values in one slot look like, at most."""
        return min(1.0, self.bound / 2.0**self.bits)

    @property
    def joint_distance(self) -> float:
        """The same of all slots together, at most."""
        return min(1.0, self.num_slots * self.distance)

    def __str__(self) -> str:
        """Return it as a report says it."""
        return (
            f"statistical blinding of {self.bits} bits: |x| <= {self.bound:.3g}, distance "
            f"2^{_log2(self.distance):.1f} per value, 2^{_log2(self.joint_distance):.1f} over "
            f"{self.num_slots} slots"
        )


@dataclass(frozen=True)
class RefreshEntry:
    """One refreshed ciphertext, for the ledger."""

    name: str
    at_level: int
    to_level: int
    blinding: Blinding
    bytes_up: int
    """To the key holder."""
    bytes_down: int
    seconds: float


class Refresher:
    """The evaluator's side."""

    def __init__(self, evaluator: Evaluator, ask: Ask, bits: int) -> None:
        """Blind by so many bits.

        Raises:
            PlanError: bits that blind nothing, or more than a number has room for.
        """
        if not 1 <= bits <= MAX_BITS:
            raise PlanError(f"blinding of {bits} bits is not in 1..{MAX_BITS}")
        self._evaluator = evaluator
        self._ask = ask
        self._bits = bits
        self.entries: list[RefreshEntry] = []
        """Everything refreshed so far."""

    def refresh(self, x: Ciphertext, *, name: str, bound: float, level: int) -> Ciphertext:
        """Return x anew, at a level and the scale of the parameters.

        Args:
            x: a ciphertext, which is not changed.
            name: for the ledger.
            bound: of the magnitude of its values, by calibration.
            level: that it shall have.

        Raises:
            RangeError: blinding overflow: x + r may not fit the modulus of its level.
            ProtocolError: the answer is damaged or not at that level and scale.
        """
        ev, start = self._evaluator, time.perf_counter()
        self._check_room(x, name, bound)
        count = ev.parameters.num_slots
        # the second draw is of the digits that the first has no room for
        draws = uniform(count, self._bits), uniform(count, self._bits - _FRACTION_BITS)
        blinded = x
        for r in draws:
            blinded = ev.add_plain(blinded, ev.encode(r, x.level, x.scale))
        sent = ev.dump(blinded)
        answer = self._ask(sent, level)
        fresh = ev.load(answer)
        if fresh.level != level or fresh.scale != 2.0**ev.parameters.scale_bits:
            message = (
                f"{name}: wanted level {level}, got {fresh.level} at scale {fresh.scale.hex()}"
            )
            raise ProtocolError(message)
        result = fresh
        for r in draws:
            result = ev.sub_plain(result, ev.encode(r, level, fresh.scale))
        blinding = Blinding(self._bits, bound, ev.parameters.num_slots)
        seconds = time.perf_counter() - start
        self.entries.append(
            RefreshEntry(name, x.level, level, blinding, len(sent), len(answer), seconds)
        )
        return result

    def _check_room(self, x: Ciphertext, name: str, bound: float) -> None:
        modulus = math.prod(self._evaluator.primes[: x.level + 1])
        largest = 2.0**self._bits + bound
        if not largest * x.scale < modulus / 4:
            message = (
                f"{name}: blinding overflow: values up to {bound:.3g} and {self._bits} bits of "
                f"blinding do not fit level {x.level}; fewer bits or a higher level would"
            )
            raise RangeError(message)


class RefreshHolder:
    """The key holder's side: two operations, and a look at nothing but the size."""

    def __init__(self, holder: Holder, bits: int) -> None:
        """Answer with a holder's key; bits as of the evaluator."""
        self._holder = holder
        self._largest = 2.0**bits * (1 + _SLACK) + 2.0**8

    def answer(self, data: bytes, level: int) -> bytes:
        """Decrypt and encrypt again at a level.

        Raises:
            ProtocolError: the ciphertext is damaged, or of other parameters.
            RangeError: a value is too large to be a small one with its blinding: a polynomial was
                outside its range, or the key is not the one.
        """
        values = self._holder.decrypt(data)
        if not np.all(np.abs(values) <= self._largest):
            raise RangeError("a blinded value is larger than any could be: a range was left")
        return self._holder.encrypt(values, level)


def uniform(count: int, bits: int) -> Values:
    """Return float64[count] uniform in +-2^bits from the system's randomness.

    Steps are 2^(bits - 52).
    """
    words = np.frombuffer(os.urandom(8 * count), np.uint64) >> np.uint64(64 - _FRACTION_BITS)
    # below 2^53 a conversion to binary64 is exact
    centred = words.astype(np.float64) - (2.0 ** (_FRACTION_BITS - 1) - 0.5)
    return centred * 2.0 ** (bits + 1 - _FRACTION_BITS)


def _log2(x: float) -> float:
    return math.log2(x) if x > 0 else -math.inf
