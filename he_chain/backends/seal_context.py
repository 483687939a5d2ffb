"""One set of SEAL parameters, and ciphertexts of them as values and as bytes."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from he_chain.backends.base import Ciphertext, Plain, Values
from he_chain.backends.frame import frame, unframe
from he_chain.backends.rules import Rules
from he_chain.backends.seal_library import from_bytes, load_library, to_bytes, translated
from he_chain.errors import BackendError, HeChainError, ProtocolError, RangeError
from he_chain.parameters import Parameters
from he_chain.planning.sizes import max_ciphertext_file_bytes
from he_chain.primes import chain_primes
from he_chain.security import Security, check

CIPHERTEXT: Final = b"ciph"
_LEVELS: Final = {128: "TC128", 192: "TC192", 256: "TC256"}


@dataclass(frozen=True, slots=True)
class SealCiphertext:
    """A ciphertext of SEAL, of two polynomials; nobody changes it."""

    raw: Any

    @property
    def level(self) -> int:
        """How many rescales it still bears."""
        return int(self.raw.coeff_modulus_size()) - 1

    @property
    def scale(self) -> float:
        """What its values were multiplied with."""
        return float(self.raw.scale)


@dataclass(frozen=True, slots=True)
class SealPlain:
    """A plaintext of SEAL."""

    raw: Any
    level: int

    @property
    def scale(self) -> float:
        """What its values were multiplied with."""
        return float(self.raw.scale)


class SealContext:
    """SEAL's context for parameters, its encoder and our rules."""

    def __init__(self, parameters: Parameters, security_bits: int = 128) -> None:
        """Check the security and build the context.

        Raises:
            BackendError: the library is absent, or refuses the parameters.
            PlanError: there are not so many primes.
            SecurityError: the modulus is too large.
        """
        self.parameters = parameters
        self.security: Security = check(parameters, security_bits)
        self.library = library = load_library()
        all_primes = chain_primes(parameters)
        with translated("context"):
            raw = library.EncryptionParameters(library.SCHEME_TYPE.CKKS)
            raw.set_poly_modulus_degree(parameters.ring_degree)
            raw.set_coeff_modulus([library.Modulus(prime) for prime in all_primes])
            level = getattr(library.SEC_LEVEL_TYPE, _LEVELS[security_bits])
            self.raw = library.SEALContext(raw, True, level)
            if not self.raw.parameters_set():
                raise BackendError(f"SEAL refuses: {self.raw.parameters_error_message()}")
            self._encoder = library.CKKSEncoder(self.raw)
            self.parms_ids = self._parms_ids()
        self.primes: tuple[int, ...] = all_primes[:-1]
        self.rules = Rules(parameters, self.primes)

    def encode(self, operation: str, values: Values | float, level: int, scale: float) -> SealPlain:
        """Encode as `Evaluator.encode`."""
        self.rules.level(operation, level)
        self.rules.scale(operation, level, scale)
        checked = self.rules.values(operation, values, level, scale)
        plain = self.library.Plaintext()
        # One number is encoded without a transform; zeros at the end SEAL adds faster than Python.
        listed: array[float] | float = float(checked) if not checked.ndim else _used(checked)
        with translated(operation, RangeError):
            self._encoder.encode(listed, self.parms_ids[level], scale, plain)
        return SealPlain(plain, level)

    def decode(self, raw_plain: Any) -> list[float]:  # noqa: ANN401 - the binding has no types
        """Return the values of all slots."""
        with translated("decode"):
            values: list[float] = self._encoder.decode_double(raw_plain)
        return values

    def dump(self, raw: Any) -> bytes:  # noqa: ANN401 - the binding has no types
        """Return a ciphertext, or what SEAL saves as one, as bytes."""
        return frame(CIPHERTEXT, bytes(to_bytes("dump", raw.save)))

    def load(self, data: bytes) -> SealCiphertext:
        """Read what `dump` wrote; as `Evaluator.load`."""
        limit = max_ciphertext_file_bytes(self.parameters)
        payload = unframe(CIPHERTEXT, data, max_bytes=limit)
        raw = self.library.Ciphertext(self.raw)
        from_bytes("load", lambda path: raw.load(self.raw, path), payload)
        ciphertext = SealCiphertext(raw)
        try:
            with translated("load"):
                if raw.size() != 2 or not raw.is_ntt_form() or raw.is_transparent():
                    raise ProtocolError("load: not a ciphertext of two polynomials that hides")
                self.rules.level("load", ciphertext.level)
                if raw.parms_id() != self.parms_ids[ciphertext.level]:
                    raise ProtocolError("load: of other parameters")
                self.rules.scale("load", ciphertext.level, ciphertext.scale)
        except ProtocolError:
            raise
        except HeChainError as error:
            raise ProtocolError(str(error)) from error
        return ciphertext

    def _parms_ids(self) -> list[list[int]]:
        """Return SEAL's name of each level, level 0 first."""
        names, data = [], self.raw.first_context_data()
        while data is not None:
            names.append(list(data.parms_id()))
            data = data.next_context_data()
        return names[::-1]


def _used(values: Values) -> array[float]:
    """Return values without the zeros at their end, as what the binding reads fastest."""
    used = np.flatnonzero(values)[-1:]
    return array("d", values[: used[0] + 1 if len(used) else 1].tobytes())


def raw_ciphertext(x: Ciphertext) -> Any:  # noqa: ANN401 - the binding has no types
    """Return SEAL's object of a ciphertext.

    Raises:
        BackendError: it belongs to another backend.
    """
    if not isinstance(x, SealCiphertext):
        raise BackendError(f"a {type(x).__name__} is no ciphertext of SEAL")
    return x.raw


def raw_plain(x: Plain) -> Any:  # noqa: ANN401 - the binding has no types
    """Return SEAL's object of a plain.

    Raises:
        BackendError: it belongs to another backend.
    """
    if not isinstance(x, SealPlain):
        raise BackendError(f"a {type(x).__name__} is no plain of SEAL")
    return x.raw
