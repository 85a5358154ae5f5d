"""OData filters, as far as the application and the SDK write them: joined by `and`, in brackets by `or`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

_TERM = re.compile(
    r"\s*(?P<name>\w+) (?P<by>eq|ne|ge|gt|le|lt) "
    r"(?:(?P<kind>datetime)?'(?P<text>(?:[^']|'')*)'|(?P<bare>[^\s']+))\s*(?:and|$)"
)
#: What is joined by `or` stands in brackets, and has none inside.
_ANY = re.compile(r"\s*\((?P<any>[^()]*)\)\s*(?:and|$)")
_BY: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "ge": operator.ge,
    "gt": operator.gt,
    "le": operator.le,
    "lt": operator.lt,
}


@dataclass(frozen=True, slots=True)
class Term:
    """One comparison."""

    name: str
    by: str
    value: str | int | float | bool | datetime

    def holds(self, properties: Mapping[str, Any]) -> bool:
        """Tell whether it is true of a row; a property that is not there has no value."""
        there = properties.get(self.name)
        if there is None:
            return False
        if isinstance(self.value, datetime):
            there = datetime.fromisoformat(there)
        return type(there) is type(self.value) and _BY[self.by](there, self.value)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Filters of which one has to hold."""

    filters: tuple[tuple[Term | AnyOf, ...], ...]

    def holds(self, properties: Mapping[str, Any]) -> bool:
        """Tell whether one is true of a row."""
        return any(all(term.holds(properties) for term in each) for each in self.filters)


@lru_cache(maxsize=512)
def terms_of(text: str) -> tuple[Term | AnyOf, ...]:
    """Read a filter; all its terms have to hold. Raises `NotImplementedError` for what nobody writes."""
    terms: list[Term | AnyOf] = []
    place = 0
    while place < len(text):
        found = _ANY.match(text, place) or _TERM.match(text, place)
        if found is None:
            raise NotImplementedError(f"filter: {text}")
        if found.re is _ANY:
            terms.append(AnyOf(tuple(map(terms_of, found["any"].split(" or ")))))
        else:
            terms.append(Term(found["name"], found["by"], _value(found)))
        place = found.end()
    return tuple(terms)


def _value(found: re.Match[str]) -> str | int | float | bool | datetime:
    if found["bare"] is not None:
        bare: str = found["bare"]
        if bare in {"true", "false"}:
            return bare == "true"
        return float(bare) if "." in bare else int(bare.rstrip("L"))
    text: str = found["text"].replace("''", "'")
    return datetime.fromisoformat(text) if found["kind"] else text
