"""What may be a request's token in text that somebody looks at: it proves who replies."""

from __future__ import annotations

import re

#: What is called a token, with all of its value however that is written, and what looks like one of ours.
_TOKEN = re.compile(
    r"""
      (?P<named>token["'\\]*\s*[:=]\s*)
      (?:(?P<quote>\\*["'])(?P<text>.*?)(?=(?<!\\)(?P=quote)|\Z)
        |(?P<opened>[\[{])(?P<some>[^\]}]*)
        |(?P<bare>[^"'\\\s,;}]+))
    | (?:[0-9a-f]-?){32,}
    """,
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
#: A letter or a digit that is written as its number, but for quotes and backslashes.
#: Many backslashes are looked at once, not from each of them on.
_ESCAPED = re.compile(r"(?<!\\)\\+u00(?!22|27|5c)([2-7][0-9a-f])", re.IGNORECASE)


def without_tokens(text: str) -> str:
    """Leave out what could be a token."""
    return _TOKEN.sub(_cut, _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text))


def tokens_in(text: str) -> list[str]:
    """Find what a text calls a token, also where it can't be read as a whole."""
    values = (found["text"] or found["bare"] for found in _TOKEN.finditer(text))
    return [value for value in values if value]


def _cut(found: re.Match[str]) -> str:
    return f"{found['named'] or ''}{found['quote'] or found['opened'] or ''}…"
