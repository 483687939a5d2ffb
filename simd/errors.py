"""Errors of compiled kernels: one base class, one line of meaning each."""

from __future__ import annotations


class SimdError(Exception):
    """Base class of every error that this package raises on purpose."""


class ConfigError(SimdError):
    """A setting of the kernels is outside its range, or came too late."""


class UnsupportedCpuError(SimdError):
    """This CPU lacks an instruction set that the compiled kernels need."""
