"""N12: where a non-finite value ends the request."""

from __future__ import annotations

import numpy as np

from engine.errors import NonFiniteError
from engine.reference.arrays import Floats


def require_finite(values: Floats, name: str) -> None:
    """Refuse infinities and NaN.

    Args:
        values: any shape.
        name: what the values are, for the message.

    Raises:
        NonFiniteError: at least one value is not finite.
    """
    finite = np.isfinite(values)
    if not finite.all():
        raise NonFiniteError(
            f"{name}: {finite.size - np.count_nonzero(finite)} values are not finite"
        )
