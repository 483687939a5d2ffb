"""Charts as SVG text: lines, steps and bars on a white ground, nothing that runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal
from xml.sax.saxutils import escape

WIDTH: Final = 860
HEIGHT: Final = 420
COLOURS: Final = ("#1f5fa8", "#c2571a", "#2b7a3d", "#7a3f9d", "#8a6d00", "#444444")
_LEFT, _RIGHT, _TOP, _BOTTOM = 86, 24, 78, 68
_INK, _GRID = "#222222", "#dddddd"


@dataclass(frozen=True, slots=True)
class Line:
    """Points (x, y), joined; a step keeps its y until the next x."""

    name: str
    points: Sequence[tuple[float, float]]
    shape: Literal["line", "step"] = "line"
    dashed: bool = False
    colour: str | None = None


@dataclass(frozen=True, slots=True)
class Bars:
    """One bar for each place 0, 1, ...; bars of several series stand side by side."""

    name: str
    values: Sequence[float]


@dataclass(slots=True)
class Chart:
    """Two axes and what is drawn on them."""

    title: str
    x_label: str
    y_label: str
    series: list[Line | Bars] = field(default_factory=list)
    places: Sequence[str] = ()
    """Names below the places of bars, of one or two lines; by default their numbers."""
    whole_y: bool = False
    """Whether y has whole numbers only, as x always has."""

    def render(self) -> str:
        """Return the SVG document; ValueError where there is nothing to draw or no number."""
        lines = [s for s in self.series if isinstance(s, Line)]
        bars = [s for s in self.series if isinstance(s, Bars)]
        xs = [x for line in lines for x, _ in line.points]
        ys = [y for line in lines for _, y in line.points] + [v for b in bars for v in b.values]
        if not ys or not all(math.isfinite(v) for v in (*xs, *ys)):
            raise ValueError("nothing to draw")
        if bars:
            x_low, x_high = -0.5, max(len(b.values) for b in bars) - 0.5
        else:
            x_low, x_high = min(xs), max(xs)
        y_ticks = ticks(min(0.0, *ys), max(ys))
        if self.whole_y:
            y_ticks = [value for value in y_ticks if value == int(value)]
        scale = _Scale(x_low, max(x_high, x_low + 1), y_ticks[0], y_ticks[-1])
        out = [*self._frame(), *self._grid(scale, y_ticks)]
        out += self._x_axis(scale, bars)
        drawn: list[tuple[str, str, bool]] = []
        for series in self.series:
            colour = COLOURS[len(drawn) % len(COLOURS)]
            if isinstance(series, Bars):
                out += _bars(series, scale, colour, bars.index(series), len(bars))
                drawn.append((series.name, colour, False))
            else:
                colour = series.colour or colour
                out.append(_path(series, scale, colour))
                drawn.append((series.name, colour, series.dashed))
        out += _legend(drawn)
        return "\n".join([*out, "</svg>", ""])

    def _frame(self) -> list[str]:
        middle = (_TOP + HEIGHT - _BOTTOM) / 2
        return [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="13">',
            f"<title>{escape(self.title)}</title>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
            _text(_LEFT, 26, self.title, size=16, weight="bold"),
            _text((_LEFT + WIDTH - _RIGHT) / 2, HEIGHT - 12, self.x_label, anchor="middle"),
            _text(22, middle, self.y_label, anchor="middle", turn=-90),
        ]

    def _grid(self, scale: _Scale, y_ticks: Sequence[float]) -> list[str]:
        out = []
        for value in y_ticks:
            y = scale.y(value)
            out.append(f'<path d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}" stroke="{_GRID}"/>')
            out.append(_text(_LEFT - 8, y + 4, number(value), anchor="end"))
        return out

    def _x_axis(self, scale: _Scale, bars: Sequence[Bars]) -> list[str]:
        base = HEIGHT - _BOTTOM
        out = [f'<path d="M{_LEFT} {base}H{WIDTH - _RIGHT}" stroke="{_INK}"/>']
        if bars:
            count = max(len(b.values) for b in bars)
            names = self.places or [str(i) for i in range(count)]
            longest = max(len(line) for name in names for line in name.split("\n")) * 7 + 8
            every = max(1, math.ceil(longest * count / (WIDTH - _LEFT - _RIGHT)))
            marks = [(float(i), names[i]) for i in range(0, count, every)]
        else:
            found = ticks(scale.x_low, scale.x_high, most=10)
            whole = [v for v in found if v == int(v) and scale.x_low <= v <= scale.x_high]
            marks = [(v, number(v)) for v in whole]
        for value, name in marks:
            for row, line in enumerate(name.split("\n")):
                out.append(_text(scale.x(value), base + 19 + 15 * row, line, anchor="middle"))
        return out


@dataclass(frozen=True, slots=True)
class _Scale:
    x_low: float
    x_high: float
    y_low: float
    y_high: float

    def x(self, value: float) -> float:
        share = (value - self.x_low) / (self.x_high - self.x_low)
        return _LEFT + share * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        share = (value - self.y_low) / (self.y_high - self.y_low)
        return HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM)


def ticks(low: float, high: float, *, most: int = 7) -> list[float]:
    """Return round numbers, evenly spaced, from at most `low` to at least `high`."""
    high = high if high > low else low + (abs(low) or 1.0)
    raw = (high - low) / (most - 1)
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * m for m in (1, 2, 5, 10, 20) if unit * m >= raw)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def number(value: float) -> str:
    """Return a number as a person reads it, without a sign on zero."""
    return f"{value:,.6g}" if value else "0"


def _path(line: Line, scale: _Scale, colour: str) -> str:
    words = []
    for index, (x, y) in enumerate(line.points):
        if index == 0:
            words.append(f"M{scale.x(x):.1f} {scale.y(y):.1f}")
        elif line.shape == "step":
            words.append(f"H{scale.x(x):.1f}V{scale.y(y):.1f}")
        else:
            words.append(f"L{scale.x(x):.1f} {scale.y(y):.1f}")
    dash = ' stroke-dasharray="6 4"' if line.dashed else ""
    style = f'fill="none" stroke="{colour}" stroke-width="1.8"{dash}'
    dots = ""
    if line.shape == "line" and not line.dashed and len(line.points) <= 80:
        dots = "".join(
            f'<circle cx="{scale.x(x):.1f}" cy="{scale.y(y):.1f}" r="3.2" fill="{colour}"/>'
            for x, y in line.points
        )
    return f'<path d="{"".join(words)}" {style}/>{dots}'


def _bars(bars: Bars, scale: _Scale, colour: str, index: int, count: int) -> list[str]:
    width = 0.8 / count
    out = []
    for place, value in enumerate(bars.values):
        left = scale.x(place - 0.4 + index * width)
        right = scale.x(place - 0.4 + (index + 1) * width)
        top, base = sorted((scale.y(value), scale.y(0.0)))
        out.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{max(right - left - 0.5, 0.5):.1f}" '
            f'height="{base - top:.1f}" fill="{colour}"/>'
        )
    return out


def _legend(drawn: Sequence[tuple[str, str, bool]]) -> list[str]:
    if len(drawn) < 2:
        return []
    out, x, y = [], float(_LEFT), 44
    for name, colour, dashed in drawn:
        width = 28 + 7.2 * len(name)
        if x + width > WIDTH - 8:
            x, y = float(_LEFT), y + 18
        dash = ' stroke-dasharray="6 4"' if dashed else ""
        out.append(f'<path d="M{x:.0f} {y}h22" stroke="{colour}" stroke-width="3"{dash}/>')
        out.append(_text(x + 28, y + 4, name))
        x += width + 18
    return out


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    size: int = 13,
    weight: str = "normal",
    turn: int = 0,
) -> str:
    rotate = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn else ""
    style = f'text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" fill="{_INK}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}{rotate}>{escape(text)}</text>'
