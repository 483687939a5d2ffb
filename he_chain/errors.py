"""What can go wrong in the homomorphic chain."""

from __future__ import annotations


class HeChainError(Exception):
    """Anything that this package raises on purpose."""


class SecurityError(HeChainError):
    """Parameters below the wanted security, or keys where they must not be."""


class PlanError(HeChainError):
    """A plan that cannot be carried out: levels, memory, bytes or precision."""


class LevelError(PlanError):
    """An operation needs a level that its ciphertext does not have; names the operation."""


class RangeError(HeChainError):
    """A value is, or could be, outside the range in which a ciphertext or polynomial is right."""


class ScaleError(HeChainError):
    """Two operands have scales that are not equal."""


class BackendError(HeChainError):
    """A library is absent, or refused; says why."""


class ProtocolError(HeChainError):
    """The other side sent what it must not, or nothing any more."""


class CheckpointError(HeChainError):
    """A file of a run is not the one that its record names."""


class PrecisionError(HeChainError):
    """A measured precision is below its gate."""
