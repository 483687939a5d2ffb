"""Computing on ciphertexts with SEAL, without a secret key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from he_chain.backends.base import Ciphertext, Plain, Values
from he_chain.backends.key_folder import read_header, refuse_secret_key
from he_chain.backends.seal_context import (
    SealCiphertext,
    SealContext,
    SealPlain,
    raw_ciphertext,
    raw_plain,
)
from he_chain.backends.seal_keys import BACKEND, SealKeys, galois_element, read_keys
from he_chain.backends.seal_library import translated
from he_chain.errors import BackendError, RangeError


class SealEvaluator:
    """`Evaluator` on SEAL; one thread at a time."""

    def __init__(self, context: SealContext, keys: SealKeys) -> None:
        """Take a context and the evaluation keys that belong to it."""
        self.parameters = context.parameters
        self.primes = context.primes
        self.counts: Counter[str] = Counter()
        self.context = context
        self.keys = keys
        self._raw = context.library.Evaluator(context.raw)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Read the keys that a holder wrote into a folder.

        Raises:
            SecurityError: a secret key is in it, or its parameters are below its security.
            ProtocolError: a file is absent, damaged, or of other parameters.
            BackendError: the library is absent or refuses.
        """
        refuse_secret_key(folder)
        header = read_header(folder, BACKEND)
        context = SealContext(header.parameters, header.security_bits)
        return cls(context, read_keys(folder, context, header.rotations))

    @property
    def rotations(self) -> frozenset[int]:
        """Steps to the left that there are keys for, 1..num_slots - 1."""
        return frozenset(self.keys.galois)

    def encode(self, values: Values | float, level: int, scale: float) -> SealPlain:
        """Encode values; see `Evaluator`."""
        plain = self.context.encode("encode", values, level, scale)
        self.counts["encodes"] += 1
        return plain

    def encrypt(self, values: Values, level: int | None = None) -> SealCiphertext:
        """Encrypt with the public key, at the scale of the parameters; as `Holder.encrypt`."""
        top = self.parameters.num_levels if level is None else level
        plain = self.context.encode("encrypt", values, top, 2.0**self.parameters.scale_bits)
        library, raw = self.context.library, self._new()
        with translated("encrypt"):
            library.Encryptor(self.context.raw, self.keys.public).encrypt(plain.raw, raw)
        self.counts["encrypts"] += 1
        return SealCiphertext(raw)

    def add(self, x: Ciphertext, y: Ciphertext) -> SealCiphertext:
        """Return x + y; see `Evaluator`."""
        return self._sum("add", x, y, self._raw.add_inplace)

    def sub(self, x: Ciphertext, y: Ciphertext) -> SealCiphertext:
        """Return x - y; see `Evaluator`."""
        return self._sum("sub", x, y, self._raw.sub_inplace)

    def add_plain(self, x: Ciphertext, y: Plain) -> SealCiphertext:
        """Return x + y; see `Evaluator`."""
        return self._sum_plain("add_plain", x, y, self._raw.add_plain_inplace)

    def sub_plain(self, x: Ciphertext, y: Plain) -> SealCiphertext:
        """Return x - y; see `Evaluator`."""
        return self._sum_plain("sub_plain", x, y, self._raw.sub_plain_inplace)

    def mul_plain(self, x: Ciphertext, y: Plain) -> SealCiphertext:
        """Return x * y; see `Evaluator`."""
        raw_x, raw_y, result = raw_ciphertext(x), raw_plain(y), self._new()
        self.context.rules.same_level("mul_plain", x, y)
        self.context.rules.product_scale("mul_plain", x, y)
        with translated("mul_plain"):
            if raw_y.is_zero():
                raise RangeError("mul_plain: the plain is zero, the product would hide nothing")
            self._raw.multiply_plain(raw_x, raw_y, result)
        self.counts["ct_pt"] += 1
        return SealCiphertext(result)

    def mul(self, x: Ciphertext, y: Ciphertext) -> SealCiphertext:
        """Return x * y; see `Evaluator`."""
        self.context.rules.product_scale("mul", x, y)
        level = min(x.level, y.level)
        raw_x, raw_y, result = self._at(x, level), self._at(y, level), self._new()
        with translated("mul"):
            if raw_x is raw_y:
                self._raw.square(raw_x, result)
            else:
                self._raw.multiply(raw_x, raw_y, result)
            self._raw.relinearize_inplace(result, self.keys.relin)
        self.counts["ct_ct"] += 1
        return SealCiphertext(result)

    def rescale(self, x: Ciphertext) -> SealCiphertext:
        """Divide by primes[level]; see `Evaluator`."""
        raw, result = raw_ciphertext(x), self._new()
        self.context.rules.rescaled("rescale", x)
        with translated("rescale"):
            self._raw.rescale_to_next(raw, result)
        self.counts["rescales"] += 1
        return SealCiphertext(result)

    def to_level(self, x: Ciphertext, level: int) -> SealCiphertext:
        """Drop primes; see `Evaluator`."""
        self.context.rules.lower("to_level", x, level)
        return SealCiphertext(self._at(x, level))

    def rotate(self, x: Ciphertext, steps: int) -> SealCiphertext:
        """Rotate to the left; see `Evaluator`."""
        raw, result = raw_ciphertext(x), self._new()
        left = self.context.rules.steps(steps)
        if left == 0:
            return SealCiphertext(raw)
        key = self.keys.galois.get(left)
        if key is None:
            raise BackendError(f"rotate: there is no key for {steps} steps to the left")
        with translated("rotate"):
            self._raw.apply_galois(raw, galois_element(self.context, left), key, result)
        self.counts["rotations"] += 1
        return SealCiphertext(result)

    def dump(self, x: Ciphertext) -> bytes:
        """Return it as bytes."""
        return self.context.dump(raw_ciphertext(x))

    def load(self, data: bytes) -> SealCiphertext:
        """Read what `dump` wrote, or a holder; see `Evaluator`."""
        return self.context.load(data)

    def _sum(
        self, operation: str, x: Ciphertext, y: Ciphertext, apply: Callable[[Any, Any], None]
    ) -> SealCiphertext:
        """Return x combined with y at the lower of their levels."""
        scale = self.context.rules.sum_scale(operation, x, y)
        level = min(x.level, y.level)
        self.context.rules.scale(operation, level, scale)
        raw_y = self._at(y, level)
        result = self._copy(x, level)
        with translated(operation):
            if y.scale != scale:  # equal but for rounding: SEAL wants the last bit
                raw_y = self._copy(y, level)
                raw_y.scale = scale
            try:
                apply(result, raw_y)
            except RuntimeError as error:
                if not result.is_transparent():
                    raise
                message = f"{operation}: the operands are one ciphertext, the result hides nothing"
                raise RangeError(message) from error
        return SealCiphertext(result)

    def _sum_plain(
        self, operation: str, x: Ciphertext, y: Plain, apply: Callable[[Any, Any], None]
    ) -> SealCiphertext:
        """Return x combined with a plain."""
        raw_y = raw_plain(y)
        self.context.rules.same_level(operation, x, y)
        self.context.rules.sum_scale(operation, x, y)
        result = self._copy(x, x.level)
        with translated(operation):
            result.scale = raw_y.scale
            apply(result, raw_y)
            result.scale = x.scale
        return SealCiphertext(result)

    def _at(self, x: Ciphertext, level: int) -> Any:  # noqa: ANN401 - the binding has no types
        """Return SEAL's object at a level, x's own when it is there."""
        return raw_ciphertext(x) if x.level == level else self._copy(x, level)

    def _copy(self, x: Ciphertext, level: int) -> Any:  # noqa: ANN401 - the binding has no types
        """Return a new object of SEAL with x at a level that is not above its own."""
        raw, result = raw_ciphertext(x), self._new()
        with translated("to_level"):
            self._raw.mod_switch_to(raw, self.context.parms_ids[level], result)
        return result

    def _new(self) -> Any:  # noqa: ANN401 - the binding has no types
        """Return an empty ciphertext of SEAL."""
        return self.context.library.Ciphertext()
