"""The speeds as a picture: a row for each number of threads, bars in pairs."""

from __future__ import annotations

import io
import statistics
from typing import TYPE_CHECKING

from appliance.bench.cases import Series
from appliance.bench.engine import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_OURS, _RIVAL = "#1b6ca8", "#b0b7bf"


def draw(results: Results, *, kind: str = "svg") -> bytes:
    """Return a plot of tokens per second.

    Args:
        results: what was measured.
        kind: a format of matplotlib.

    Raises:
        ModuleNotFoundError: matplotlib is not installed (extra `plots`).
    """
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra, wanted only here

    panels = _panels(results)
    threads = sorted({number for number, _ in panels})
    figure = Figure(figsize=(10, 3.4 * len(threads)), layout="constrained")
    # prefill is several times faster than decode: each has a scale of its own, from zero
    for place, ((number, phase), chosen) in enumerate(panels.items(), start=1):
        axes = figure.add_subplot(len(threads), 2, place)
        _draw_panel(axes, chosen)
        axes.set_title(f"{phase}, {number} thread{'s' if number > 1 else ''}", fontsize=10)
    figure.suptitle(f"{results.weights['file']}, kernel path {results.engine['kernel_path']}")
    picture = io.BytesIO()
    figure.savefig(picture, format=kind)
    return picture.getvalue()


def _panels(results: Results) -> dict[tuple[int, str], list[Series]]:
    """Group the series by number of threads and phase."""
    panels: dict[tuple[int, str], list[Series]] = {}
    for series in results.series:
        panels.setdefault((series.threads, series.case.phase), []).append(series)
    return panels


def _draw_panel(axes: Axes, chosen: list[Series]) -> None:
    ours = [statistics.median(series.plain) for series in chosen]
    places = [float(n) for n in range(len(chosen))]
    with_rival = all(series.rival for series in chosen)
    width = 0.4 if with_rival else 0.7
    shift = width / 2 if with_rival else 0.0
    axes.bar([x - shift for x in places], ours, width, color=_OURS, label="windhover")
    if with_rival:
        theirs = [statistics.median(series.rival) for series in chosen]
        axes.bar([x + shift for x in places], theirs, width, color=_RIVAL, label="llama.cpp")
        for x, series, height in zip(places, chosen, ours, strict=True):
            ratio = f"{statistics.median(series.ratios):.2f}x"
            axes.annotate(ratio, (x - shift, height), ha="center", va="bottom", fontsize=8)
    axes.set_xticks(places, [series.case.label for series in chosen], rotation=20, ha="right")
    axes.set_ylabel("tokens per second")
    axes.margins(y=0.12)
    axes.legend(fontsize=8)
