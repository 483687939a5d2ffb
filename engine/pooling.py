"""From the residual stream of a text to its vector (NUMERICS N14)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.errors import ConfigError, NonFiniteError
from engine.reference.fold import fold16
from engine.reference.norm import rmsnorm

_ONE = np.float32(1)


class Pooling:
    """Takes the positions of one text as they are computed, in pieces, and gives its vector."""

    def __init__(self, kind: str, final_norm: NDArray[np.float32], eps_bits: int) -> None:
        """Start without positions.

        Args:
            kind: `mean` or `last`.
            final_norm: float32[hidden], the weight of the model's last norm.
            eps_bits: the manifest's eps as a binary32 pattern.

        Raises:
            ConfigError: another kind.
        """
        if kind not in ("mean", "last"):
            raise ConfigError(f"there is no pooling of the kind {kind}")
        self._is_mean = kind == "mean"
        self._norm, self._eps_bits = final_norm, eps_bits
        self._state = np.zeros(len(final_norm), np.float32)
        self._num_positions = 0

    def push(self, states: NDArray[np.float32]) -> None:
        """Take float32[n, hidden], x(t, L) of the next n positions, n at least 1."""
        self._num_positions += len(states)
        # What overflows here is found by `vector`: nothing finite comes of it any more.
        with np.errstate(all="ignore"):
            if not self._is_mean:
                self._state = rmsnorm(states[-1], self._norm, self._eps_bits)
                return
            for row in rmsnorm(states, self._norm, self._eps_bits):
                self._state = self._state + row

    def vector(self) -> NDArray[np.float32]:
        """Return float32[hidden] of length 1.

        Raises:
            ConfigError: there was no position.
            NonFiniteError: the length before was zero or not finite.
        """
        if not self._num_positions:
            raise ConfigError("a text needs at least one token to become a vector")
        with np.errstate(all="ignore"):
            pooled: NDArray[np.float32] = self._state
            if self._is_mean:
                pooled = pooled / np.float32(self._num_positions)
            squares = fold16(pooled * pooled)
            factor = np.float32(_ONE / np.sqrt(squares))
            vector: NDArray[np.float32] = pooled * factor
        is_finite = np.isfinite(squares) and np.isfinite(factor) and bool(np.isfinite(vector).all())
        if not (is_finite and squares > 0 and factor > 0):
            raise NonFiniteError("the length of a vector is zero or not finite")
        return vector
