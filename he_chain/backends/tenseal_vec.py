"""The baseline that our products are compared with: TenSEAL's own vectors."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from he_chain.backends.seal_library import load_library, translated
from he_chain.errors import RangeError
from he_chain.parameters import Parameters
from he_chain.primes import chain_primes
from he_chain.security import check


class VectorBaseline:
    """`ckks_vector.matmul` with all keys in one context, on one thread; for measurements."""

    def __init__(self, parameters: Parameters) -> None:
        """Make keys, TenSEAL's rotations by powers of two among them.

        Raises:
            SecurityError: the parameters are below 128 bits of security.
            BackendError: the library is absent or refuses.
        """
        check(parameters)
        load_library()
        self.parameters = parameters
        self._tenseal: Any = importlib.import_module("tenseal")
        with translated("context"):
            self._context = self._tenseal.context(
                self._tenseal.SCHEME_TYPE.CKKS,
                poly_modulus_degree=parameters.ring_degree,
                coeff_mod_bit_sizes=list(parameters.prime_bits),
                n_threads=1,
            )
            self._context.global_scale = 2.0**parameters.scale_bits
            self._context.generate_galois_keys()

    @property
    def primes(self) -> tuple[int, ...]:
        """The primes of all levels, which the same parameters give in every backend."""
        return chain_primes(self.parameters)[:-1]

    def encrypt(self, values: NDArray[np.float64]) -> Any:  # noqa: ANN401 - the binding has no types
        """Return a `ckks_vector` of at most num_slots values.

        Raises:
            RangeError: there are more, of which TenSEAL makes several ciphertexts with a warning.
        """
        if not 1 <= len(values) <= self.parameters.num_slots:
            raise RangeError(f"{len(values)} values for {self.parameters.num_slots} slots")
        with translated("ckks_vector"):
            return self._tenseal.ckks_vector(self._context, values.tolist())

    def matmul(self, x: Any, matrix: NDArray[np.float64]) -> Any:  # noqa: ANN401 - no types
        """Return x times a matrix float64[inputs, outputs], rescaled.

        Raises:
            RangeError: inputs + outputs > num_slots + 1, where TenSEAL's result is wrong without a
                word (its issue 504), or x has another number of values.
            BackendError: no level is left, or another refusal of the library.
        """
        inputs, outputs = matrix.shape
        if inputs + outputs > self.parameters.num_slots + 1:
            message = (
                f"matmul: {inputs} inputs and {outputs} outputs are more than the "
                f"{self.parameters.num_slots + 1} for which TenSEAL is right"
            )
            raise RangeError(message)
        if x.size() != inputs:
            raise RangeError(f"matmul: {x.size()} values for a matrix of {inputs} inputs")
        with translated("matmul"):
            return x.matmul(matrix.tolist())

    def decrypt(self, x: Any) -> NDArray[np.float64]:  # noqa: ANN401 - the binding has no types
        """Return the values of a `ckks_vector`."""
        with translated("decrypt"):
            return np.array(x.decrypt(), dtype=np.float64)
