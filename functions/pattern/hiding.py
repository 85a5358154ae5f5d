"""Hides secrets wherever they turn up: in JSON, and inside texts, however those write them."""

from __future__ import annotations

import re
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
        shown = plain = _cut_out(self._inside, text)
        for _ in range(_MOST_NESTED + 1):
            line = one_line(plain)
            hidden = _cut_out(self._inside_lines, line)
            if hidden != line:
                shown = plain = hidden
            plain = _meant(plain)
        return shown

    @cached_property
    def _inside(self) -> Sequence[str]:
        return _longest_first(self.values)

    @cached_property
    def _inside_lines(self) -> Sequence[str]:
        return _longest_first(frozenset(map(one_line, self.values)))


NO_SECRETS = Secrets()


def _longest_first(values: frozenset[str]) -> Sequence[str]:
    long = [each for each in values if len(each) >= _LEAST_INSIDE and each not in HIDDEN]
    return sorted(long, key=len, reverse=True)


def _meant(text: str) -> str:
    """Give what a text says if it is JSON."""
    if "\\" not in text:
        return text
    return _ESCAPED.sub(_unescaped, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescaped(escaped: re.Match[str]) -> str:
    code, space, itself = escaped.groups()
    return chr(int(code, 16)) if code else _SPACES.get(space) or itself or ""


def _cut_out(secrets: Sequence[str], text: str) -> str:
    for each in secrets:
        if CUT in each:
            text = text.replace(each, HIDDEN)
    *cut, last = text.split(CUT)
    text = CUT.join([*(_without_its_end(secrets, each) for each in cut), last])
    for each in secrets:
        text = text.replace(each, HIDDEN)
    return text


def _without_its_end(secrets: Sequence[str], text: str) -> str:
    """Hide also the beginning of a secret within which a text was cut."""
    end = min((_begins(each, text) for each in secrets), default=len(text))
    return text if end == len(text) else text[:end] + HIDDEN


def _begins(secret: str, text: str) -> int:
    """Tell where the secret begins with which a text ends; at its end, if it does not end so."""
    start = secret[:_LEAST_INSIDE]
    at = text.find(start, max(0, len(text) - min(len(secret), _MOST_BEGUN)))
    while at >= 0 and not secret.startswith(text[at:]):
        at = text.find(start, at + 1)
    return len(text) if at < 0 else at
