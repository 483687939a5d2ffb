"""How fast something grows, told from noise.

Source: Theil 1950, Sen 1968: the median of the slopes between all pairs of points.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import combinations

Points = Sequence[tuple[float, float]]


def robust_slope(points: Points) -> float:
    """Return the median slope of all pairs of points; a third of them may be anything.

    Args:
        points: at least two, with different first coordinates.

    Raises:
        ValueError: there are fewer.
    """
    slopes = [(y - v) / (x - u) for (u, v), (x, y) in combinations(points, 2) if x != u]
    if not slopes:
        raise ValueError("a slope needs two points")
    return statistics.median(slopes)


def second_half(points: Points) -> Points:
    """Return the points of the second half of the time that they cover."""
    if not points:
        return points
    middle = (points[0][0] + points[-1][0]) / 2
    return [point for point in points if point[0] >= middle]
