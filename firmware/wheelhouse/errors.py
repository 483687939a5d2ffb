"""What a wheelhouse cannot be made of."""

from __future__ import annotations


class WheelhouseError(Exception):
    """The lock, a wheel or pip does not give what is needed; the message is one line."""
