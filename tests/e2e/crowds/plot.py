"""Draws the calls of a service that is back after an outage, as an SVG."""

from __future__ import annotations

from collections.abc import Callable

from tests.e2e.crowds.outage import Returned

_WIDTH, _PANEL, _LEFT, _TOP, _RIGHT, _BOTTOM = 760, 230, 56, 44, 16, 44
_INK, _GRID, _BAR, _LINE = "#333", "#ddd", "#5b8def", "#c0392b"
_TICKS = 5
#: Seconds in which calls are few because of the ramp.
_FIRST = 60


def drawn(returned: Returned) -> str:
    """Draw the first minute, with the line that calls must not pass, and all of the return."""
    counts, outage = returned.per_second, returned.outage
    allowed = [outage.allowed(second) / outage.call_seconds for second in range(_FIRST)]
    times = "" if outage.scale == 1 else f"; times {outage.scale} times as fast"
    title = f"Calls a second after an outage of {outage.seconds / outage.scale:.0f} s, {outage.tasks:,} tasks"
    size = f'viewBox="0 0 {_WIDTH} {2 * _PANEL}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" role="img">',
            f'<rect width="{_WIDTH}" height="{2 * _PANEL}" fill="#fff"/>',
            _text(_LEFT, 16, title, size=14),
            *_panel(0, counts[:_FIRST], allowed, f"the first minute; line: what the ramp allows{times}"),
            *_panel(_PANEL, counts, [], "until all are done"),
            "</svg>",
            "",
        ]
    )


def _panel(top: float, counts: list[int], allowed: list[float], title: str) -> list[str]:
    """Draw a bar for each second's calls, and a line."""
    most = max(1, *counts) * 1.15
    width, height = _WIDTH - _LEFT - _RIGHT, _PANEL - _TOP - _BOTTOM
    step, bottom = width / max(1, len(counts)), top + _TOP + height

    def x_of(second: float) -> float:
        return _LEFT + second * step

    def y_of(calls: float) -> float:
        return bottom - height * min(calls, most) / most

    bars = [
        f'<rect x="{x_of(second):.1f}" y="{y_of(count):.1f}" width="{max(1, step * 0.8):.1f}"'
        f' height="{bottom - y_of(count):.1f}" fill="{_BAR}"/>'
        for second, count in enumerate(counts)
        if count
    ]
    inside = [each for each in allowed[: len(counts)] if each <= most] + [most]
    points = [
        f"{x_of(second + end):.1f},{y_of(each):.1f}" for second, each in enumerate(inside) for end in (0, 1)
    ]
    line = f'<polyline points="{" ".join(points)}" fill="none" stroke="{_LINE}" stroke-width="2"/>'
    every = max(1, len(counts) // 8)
    return [
        _text(_LEFT, top + 34, title),
        *_scale(most, y_of),
        *(
            _text(x_of(each), bottom + 16, f"{each}", anchor="middle")
            for each in range(0, len(counts), every)
        ),
        _text(_LEFT + width / 2, bottom + 32, "seconds since the service is back", anchor="middle"),
        *bars,
        *([line] if allowed else []),
    ]


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
