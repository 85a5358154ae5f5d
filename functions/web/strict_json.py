"""What counts as JSON here: UTF-8 text with finite numbers, nested no deeper than a model could need."""

from __future__ import annotations

import json
from math import isfinite
from typing import NoReturn

#: An order is seldom nested deeper than five levels.
MOST_DEPTH = 16


def json_fault(body: bytes, most_depth: int = MOST_DEPTH) -> str | None:
    """Tell what keeps a body from being JSON of this kind; None: nothing does."""
    too_deep = f"The body is nested deeper than {most_depth} levels."
    try:
        content = json.loads(body.decode(), parse_constant=_refuse, parse_float=_finite)
    except ValueError:
        return "The body is not JSON."
    except RecursionError:
        return too_deep
    return too_deep if _is_deeper(content, most_depth) else None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _finite(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise ValueError(digits)
    return number


def _is_deeper(content: object, most: int) -> bool:
    level = [content] if isinstance(content, dict | list) else []
    depth = 0
    while level:
        depth += 1
        if depth > most:
            return True
        level = [child for each in level for child in _children(each) if isinstance(child, dict | list)]
    return False


def _children(container: dict[str, object] | list[object]) -> list[object]:
    return list(container.values()) if isinstance(container, dict) else container
