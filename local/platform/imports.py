"""The modules that an app imports, which the host can import before the app's services answer."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def imported_modules(app: Path) -> list[str]:
    """Name the modules that `function_app.py` imports at its top, in order; none if it cannot be read."""
    try:
        tree = ast.parse((app / "function_app.py").read_bytes())
    except (OSError, SyntaxError, ValueError):
        return []  # the host reports it
    return list(dict.fromkeys(_names(tree)))


def _names(tree: ast.Module) -> Iterator[str]:
    for statement in tree.body:
        match statement:
            case ast.Import(names):
                yield from (each.name for each in names)
            case ast.ImportFrom(module=str(module), level=0) if module != "__future__":
                yield module
            case _:
                pass
