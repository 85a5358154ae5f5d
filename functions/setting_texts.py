"""Settings that are more than a word: lists, pairs, and the fields of a `Retry`, read from their texts."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from functions.pattern.retry import Retry


def parts(text: object, *, separator: str = ",") -> object:
    """Read `a,b`; what is no text stays as it is."""
    if not isinstance(text, str):
        return text
    return tuple(part.strip() for part in text.split(separator) if part.strip())


def pairs(text: object, *, separator: str = ",") -> object:
    """Read `name=value,name=value`."""
    read = parts(text, separator=separator)
    return dict(part.split("=", 1) for part in read) if isinstance(read, tuple) else read


def retry_of(text: object) -> object:
    """Read the fields of a `Retry`; those that are not given are the usual ones."""
    read = pairs(text)
    if not isinstance(read, dict):
        return read
    known = {each.name for each in fields(Retry)} - {"on"}
    if not read.keys() <= known:
        raise ValueError(f"its parts are {', '.join(sorted(known))}")
    numbers: Any = {name: (int if name == "attempts" else float)(read[name]) for name in read}
    return Retry(**numbers)
