"""Colours can be read: WCAG 2.2 AA, in light and in dark."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import functions.console

_THEME = (Path(functions.console.__file__).parent / "static" / "theme.css").read_text(encoding="utf-8")

#: Contrast of text (WCAG 2.2, 1.4.3), and of what is drawn (1.4.11).
TEXT = 4.5
DRAWN = 3.0

_TONES = ("good", "bad", "late", "undone", "calm")
_TEXTS = [
    *((tone, ground) for tone in ("text", "quiet", "accent", *_TONES) for ground in ("surface", "ground")),
    *((tone, f"{tone}-tint") for tone in _TONES),
    *(("text", f"{tone}-tint") for tone in (*_TONES, "active")),
    ("accent", "active-tint"),
    ("on-accent", "accent"),
]
_DRAWN = [("line-strong", "surface"), ("quiet", "calm-tint"), ("accent", "ground")]


def _colours(scheme: str) -> dict[str, str]:
    """Read the colours of a scheme; the dark ones come second in the file."""
    light, _, dark = _THEME.partition("@media (prefers-color-scheme: dark)")
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", light if scheme == "light" else dark))


def _luminance(colour: str) -> float:
    """Give the relative luminance (WCAG 2.2, "relative luminance")."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_contrast_is_measured_as_the_standard_says() -> None:
    """Black on white is 21; #767676 is the lightest grey that can be read on white."""
    assert _contrast("#000000", "#ffffff") == pytest.approx(21)
    assert _contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("front", "back"), _TEXTS)
def test_text_can_be_read(scheme: str, front: str, back: str) -> None:
    """On every ground that it stands on."""
    colours = _colours(scheme)
    assert _contrast(colours[front], colours[back]) >= TEXT


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("front", "back"), _DRAWN)
def test_what_is_drawn_can_be_seen(scheme: str, front: str, back: str) -> None:
    """Fields' borders, marks and outlines."""
    colours = _colours(scheme)
    assert _contrast(colours[front], colours[back]) >= DRAWN
