"""N11: the root that commits to every residual of an answer."""

from __future__ import annotations

from crypto.merkle import leaf_hash, root
from engine.reference.arrays import F32


def layer_roots(residuals: F32) -> list[bytes]:
    """Return R_0 .. R_L.

    Args:
        residuals: float32[L + 1, T, hidden], x(t, l) of every position but that of the last
            output token.
    """
    return [root([leaf_hash(row.tobytes()) for row in x]) for x in residuals]


def trace_root(residuals: F32) -> bytes:
    """Return the Merkle root over the layers, 32 bytes; `residuals` as for `layer_roots`."""
    return root([leaf_hash(layer_root) for layer_root in layer_roots(residuals)])
