"""Draws the calls of a service that is back after an outage, as an SVG."""

from __future__ import annotations

from collections.abc import Callable

from tests.e2e.crowds.outage import Returned

_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 760, 300, 56, 44, 16, 44
_INK, _GRID, _BAR, _LINE = "#333", "#ddd", "#5b8def", "#c0392b"
_TICKS = 5


def drawn(returned: Returned) -> str:
    """Draw a bar for each second's calls, and the line that they must not pass."""
    counts, outage = returned.per_second, returned.outage
    most = max(1, *counts) * 1.15
    width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    step = width / max(1, len(counts))

    def x_of(second: float) -> float:
        return _LEFT + second * step

    def y_of(calls: float) -> float:
        return _TOP + height * (1 - min(calls, most) / most)

    bars = [
        f'<rect x="{x_of(second) + step * 0.1:.1f}" y="{y_of(count):.1f}" width="{step * 0.8:.1f}"'
        f' height="{_TOP + height - y_of(count):.1f}" fill="{_BAR}"/>'
        for second, count in enumerate(counts)
    ]
    allowed = [outage.allowed(second) / outage.call_seconds for second in range(len(counts))]
    points = [
        f"{x_of(second + end):.1f},{y_of(each):.1f}"
        for second, each in enumerate(allowed)
        for end in (0, 1)
        if each <= most or second == 0 or allowed[second - 1] <= most
    ]
    size = f'viewBox="0 0 {_WIDTH} {_HEIGHT}"'
    texts = [
        _text(_LEFT, 18, f"Calls a second after an outage, {outage.tasks:,} tasks waiting", size=14),
        _text(
            _LEFT, 34, f"bars: calls begun; line: what the ramp allows; times {outage.scale} times as fast"
        ),
        _text(_LEFT + width / 2, _HEIGHT - 8, "seconds since the service is back", anchor="middle"),
        *_scale(most, y_of),
        *(
            _text(x_of(second), _TOP + height + 16, f"{second}", anchor="middle")
            for second in range(0, len(counts) + 1, max(1, len(counts) // 8))
        ),
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" role="img">',
            f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
            *texts,
            *bars,
            f'<polyline points="{" ".join(points)}" fill="none" stroke="{_LINE}" stroke-width="2"/>',
            "</svg>",
            "",
        ]
    )


def _scale(most: float, y_of: Callable[[float], float]) -> list[str]:
    """Draw the scale of calls."""
    every = max(1, round(most / _TICKS))
    marks = list[str]()
    for calls in range(0, int(most) + 1, every):
        y = y_of(calls)
        marks.append(f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" stroke="{_GRID}"/>')
        marks.append(_text(_LEFT - 8, y + 4, f"{calls}", anchor="end"))
    return marks


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 11) -> str:
    style = f'font-size="{size}" fill="{_INK}" text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{text}</text>'
