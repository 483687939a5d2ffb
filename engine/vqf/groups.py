"""What the fields of a matrix mean: integers with scales, and their values (NUMERICS N2).

Letters: N rows, K columns. Every float operation is one binary32 operation, rounded once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

_OFFSET: Final = {
    "Q4_0": 8,
    "Q4_1": 0,
    "Q5_0": 16,
    "Q5_1": 0,
    "Q8_0": 0,
    "Q4_K": 0,
    "Q5_K": 0,
    "Q6_K": 32,
}
_GROUP: Final = dict.fromkeys(_OFFSET, 32) | {"Q6_K": 16}


class Groups(NamedTuple):
    """A matrix as N2 defines it: integers, and a scale and perhaps a minimum for each group."""

    q: NDArray[np.int16]
    """int16[N, K], offset removed."""
    s: NDArray[np.float32]
    """float32[N, K / group]."""
    m: NDArray[np.float32] | None
    """float32[N, K / group], or None where the kind has no minimum."""
    group: int
    """Inputs that share a scale: 32, in Q6_K 16."""


def integer_groups(kind: str, fields: Mapping[str, NDArray[Any]]) -> Groups:
    """Return the integers, scales and minima of an integer kind.

    Args:
        kind: one of the integer kinds.
        fields: the fields of the kind, as `engine.vqf.panels.unpack` returns them.

    Raises:
        ValueError: `kind` is a float kind or unknown.

    Source: NUMERICS N2.
    """
    if kind not in _OFFSET:
        raise ValueError(f"kind {kind!r} has no integers")
    group = _GROUP[kind]
    q = fields["q"].astype(np.int16) - np.int16(_OFFSET[kind])
    s = fields["d"].astype(np.float32)
    m: NDArray[np.float32] | None = None
    # A hostile file may hold infinities; what they lead to is refused where it is computed (N12).
    with np.errstate(over="ignore", invalid="ignore"):
        if "sc" in fields:
            s = _over_groups(s, fields["sc"]) * fields["sc"].astype(np.float32)
        if "mn" in fields:
            dmin = fields["dmin"].astype(np.float32)
            m = -(_over_groups(dmin, fields["mn"]) * fields["mn"].astype(np.float32))
    if "m" in fields:
        m = fields["m"].astype(np.float32)
    return Groups(q, s, m, group)


def values(kind: str, fields: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
    """Return the values that a matrix stands for: float32[N, K].

    Args:
        kind: any kind.
        fields: the fields of the kind, as `engine.vqf.panels.unpack` returns them.

    Raises:
        ValueError: unknown kind.

    Source: NUMERICS N2, last paragraph.
    """
    if kind in ("F32", "F16"):
        return fields["w"].astype(np.float32)
    if kind == "BF16":
        return (fields["w"].astype(np.uint32) << np.uint32(16)).view(np.float32)
    groups = integer_groups(kind, fields)
    rows, columns = groups.q.shape
    out = groups.q.astype(np.float32).reshape(rows, columns // groups.group, groups.group)
    with np.errstate(over="ignore", invalid="ignore"):
        out *= groups.s[:, :, None]
        if groups.m is not None:
            out += groups.m[:, :, None]
    return out.reshape(rows, columns)


def _over_groups(blocks: NDArray[np.float32], of_groups: NDArray[Any]) -> NDArray[np.float32]:
    """Repeat one value of each block for every group of it: [N, B] -> the shape of `of_groups`."""
    return np.repeat(blocks, of_groups.shape[1] // blocks.shape[1], axis=1)
