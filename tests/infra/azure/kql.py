"""Follows the columns of a log query from stage to stage, as far as our queries go."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

_WORDS = {"and", "or", "not", "by", "asc", "desc", "in", "has", "startswith", "true", "false", "null"}
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_GIVEN = re.compile(r"^([A-Za-z_]\w*)\s*=(?![=~])\s*")
_KEEPS_COLUMNS = {"where", "order by", "sort by", "top", "take", "distinct"}
_OPERATOR = re.compile(r"\s*(order by|sort by|\w+)\b")


class UnreadQueryError(Exception):
    """A query has an operator that is not followed here, so its columns are unknown."""


@dataclass(frozen=True, slots=True)
class Read:
    """A query that was followed: what it names that does not exist, and the columns that it returns."""

    unknown: tuple[str, ...]
    columns: frozenset[str]


def read_query(text: str, tables: Mapping[str, Collection[str]]) -> Read:
    """Follow a query from its table on. Raises `UnreadQueryError`."""
    source, *stages = _bare(text).split("|")
    names = [name.strip() for name in source.strip().removeprefix("union ").split(",")]
    columns = frozenset(column for name in names for column in tables.get(name, ()))
    missing = tuple(f"table {name}" for name in names if name not in tables)
    return read_stages(stages, Read(missing, columns))


def read_stages(stages: Sequence[str] | str, before: Read) -> Read:
    """Follow further stages. Raises `UnreadQueryError`."""
    for stage in _bare(stages).split("|") if isinstance(stages, str) else stages:
        if stage.strip():
            before = _read_stage(stage, before)
    return before


def _bare(text: str) -> str:
    """Leave out comments, the texts in quotes, and the workbook's own parameters."""
    without = re.sub(r'"[^"]*"|\{[^}]*\}', '""', text)
    return re.sub(r"//.*", "", without)


def _read_stage(stage: str, before: Read) -> Read:
    found = _OPERATOR.match(stage)
    operator, rest = (found[1], stage[found.end() :]) if found else ("", stage)
    if operator in _KEEPS_COLUMNS:
        return _after(before, rest, before.columns)
    if operator == "parse":
        read, _, made = rest.partition(" with ")
        return _after(before, read, before.columns | set(_NAME.findall(made)))
    if operator in {"extend", "project", "summarize"}:
        parts = list(_parts(rest.replace(" by ", ", ") if operator == "summarize" else rest))
        new = {name for part in parts for name in _made(part)}
        kept = before.columns if operator == "extend" else frozenset[str]()
        return _after(before, ", ".join(_GIVEN.sub("", part) for part in parts), kept | new)
    raise UnreadQueryError(f"operator '{operator}' is not followed")


def _after(before: Read, expression: str, columns: Collection[str]) -> Read:
    unknown = [name for name in _used(expression) if name not in before.columns]
    return Read((*before.unknown, *(f"column {name}" for name in unknown)), frozenset(columns))


def _used(expression: str) -> Iterator[str]:
    """Yield the columns in an expression: names that are no words of the language and are not called."""
    for found in _NAME.finditer(expression):
        called = expression[found.end() :].lstrip().startswith("(")
        if not called and found[0] not in _WORDS:
            yield found[0]


def _made(part: str) -> Iterator[str]:
    """Yield the columns that one part of a stage makes."""
    given = _GIVEN.match(part)
    if given:
        yield given[1]
    elif part.startswith("arg_"):
        yield from _used(part)
    elif part.startswith("bin(") or "(" not in part:
        yield from list(_used(part))[:1]
    else:
        function, _, inner = part.partition("(")
        yield f"{function}_{next(_used(inner), '')}"


def _parts(text: str) -> Iterator[str]:
    """Split at the commas that are in no brackets."""
    depth, part = 0, ""
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            yield part.strip()
            part = ""
        else:
            part += letter
    yield part.strip()
