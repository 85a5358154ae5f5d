"""Texts that come from outside, such as errors, as they may stand in a task's rows: clean, and bounded."""

from __future__ import annotations

#: A fault's text on a step, and what a closed epoch keeps of it for each of its steps.
MAX_ERROR_BYTES = 1024
MAX_PAST_ERROR_BYTES = 256

_CUT = "…"


def bounded(text: str, most: int) -> str:
    """Cut a text to `most` bytes, counted as JSON in UTF-8; what can't be shown becomes a space."""
    left = most - len(_CUT.encode())
    shown = "".join(each if each.isprintable() else " " for each in text)
    for number, each in enumerate(shown):
        left -= len(each.encode()) + (each in '"\\')
        if left < 0:
            return shown if _cost(shown) <= most else shown[:number] + _CUT
    return shown


def _cost(text: str) -> int:
    return len(text.encode()) + text.count('"') + text.count("\\")
