"""Hides secrets wherever they turn up: in JSON, and inside texts, however those write them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from functions.pattern.texts import CUT, one_line

#: What stands in the place of a secret.
HIDDEN = "(hidden)"

#: Characters of a secret that is looked for inside other texts; a shorter one is found as a whole text only.
_LEAST_INSIDE = 4
#: Characters of a secret's beginning that is looked for where a text was cut.
_MOST_BEGUN = 4096

#: What JSON, or a quoted text, writes in another way; where a text was cut, it can be a part of that.
_ESCAPED = re.compile(rf"\\(?:u([0-9a-fA-F]{{4}})|([bfnrt])|([\"'\\/])|u?[0-9a-fA-F]{{0,3}}(?={CUT}))")
#: JSON in a text of JSON is written so twice.
_MOST_NESTED = 2
_SPACES = dict.fromkeys("bfnrt", " ")


class _Inside:
    """Secrets that are long enough to be looked for inside texts."""

    def __init__(self, values: frozenset[str]) -> None:
        long = [each for each in values if len(each) >= _LEAST_INSIDE and each not in HIDDEN]
        self._longest_first = sorted(long, key=len, reverse=True)
        self._with_cut = [each for each in self._longest_first if CUT in each]
        self._sorted = sorted(long)
        self._starts = {each[:_LEAST_INSIDE] for each in long}
        self._most_begun = min(_MOST_BEGUN, max(map(len, long), default=0))

    def cut_out(self, text: str) -> str:
        """Hide them in a text; where it was cut, also the beginning of one."""
        text = _replaced(self._with_cut, text)
        *cut, last = text.split(CUT)
        text = CUT.join([*map(self._without_its_end, cut), last])
        return _replaced(self._longest_first, text)

    def _without_its_end(self, text: str) -> str:
        """Hide the beginning of a secret with which a text ends: all secrets are looked for at once."""
        for at in range(max(0, len(text) - self._most_begun), len(text) - _LEAST_INSIDE + 1):
            if text[at : at + _LEAST_INSIDE] in self._starts and self._begins(text[at:]):
                return text[:at] + HIDDEN
        return text

    def _begins(self, text: str) -> bool:
        """Tell whether one begins so: it is the first that does not come before."""
        place = bisect_left(self._sorted, text)
        return place < len(self._sorted) and self._sorted[place].startswith(text)


def _replaced(secrets: Sequence[str], text: str) -> str:
    for each in secrets:
        text = text.replace(each, HIDDEN)
    return text


@dataclass(frozen=True)
class Secrets:
    """What secret fields hold, as texts. It is in no representation of this.

    They are looked for without patterns, so that the work is bounded by the lengths of texts and secrets.
    """

    values: frozenset[str] = field(default=frozenset(), repr=False)

    def without(self, content: Any) -> Any:
        """Give JSON in which each text or number that is a secret is hidden, also inside longer texts."""
        match content:
            case _ if not self.values:
                return content
            case dict():
                return {self.without(name): self.without(each) for name, each in content.items()}
            case list():
                return [self.without(each) for each in content]
            case str():
                return HIDDEN if content.strip() in self.values else self._without_parts(content)
            case int() | float() if not isinstance(content, bool) and str(content) in self.values:
                return HIDDEN
            case _:
                return content

    def _without_parts(self, text: str) -> str:
        """Hide secrets inside a text; where one is written in another way, the text is shown in plain."""
        shown = plain = self._inside.cut_out(text)
        for _ in range(_MOST_NESTED + 1):
            line = one_line(plain)
            hidden = self._inside_lines.cut_out(line)
            if hidden != line:
                shown = plain = hidden
            plain = _meant(plain)
        return shown

    @cached_property
    def _inside(self) -> _Inside:
        return _Inside(self.values)

    @cached_property
    def _inside_lines(self) -> _Inside:
        return _Inside(frozenset(map(one_line, self.values)))


NO_SECRETS = Secrets()


def _meant(text: str) -> str:
    """Give what a text says if it is JSON."""
    if "\\" not in text:
        return text
    return _ESCAPED.sub(_unescaped, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescaped(escaped: re.Match[str]) -> str:
    code, space, itself = escaped.groups()
    return chr(int(code, 16)) if code else _SPACES.get(space) or itself or ""
