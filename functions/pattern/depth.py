"""How deep workflows are nested whose steps are tasks of others: not far, and in no circle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from functions.pattern.errors import DefinitionError
from functions.pattern.shape import Shape

#: A task, its children, and theirs.
MOST_DEPTH = 3


class Nested(Protocol):
    """A version of a workflow."""

    @property
    def name(self) -> str:
        """Name the workflow."""

    @property
    def shape(self) -> Shape:
        """Give its steps."""


def check_depth[Version: Nested](versions: Iterable[Version], newest: Mapping[str, Version]) -> None:
    """Refuse steps whose workflow is not there, circles, and more depth. Raises `DefinitionError`.

    A step's task takes the `newest` version of its workflow.
    """
    for version in versions:
        _check([version], newest)


def _check[Version: Nested](path: list[Version], newest: Mapping[str, Version]) -> None:
    for step in path[-1].shape.steps:
        if step.workflow is None:
            continue
        named = f"workflow '{path[-1].name}': step '{step.name}'"
        child = newest.get(step.workflow)
        if child is None:
            known = ", ".join(sorted(newest))
            raise DefinitionError(
                f"{named}: there is no workflow '{step.workflow}': name one of {known}, or register it"
            )
        names = " → ".join(each.name for each in [*path, child])
        if child in path:
            raise DefinitionError(f"{named}: its workflow leads back to itself ({names}): break the circle")
        if len(path) == MOST_DEPTH:
            raise DefinitionError(
                f"{named}: more than {MOST_DEPTH} workflows in each other ({names}): take one out"
            )
        _check([*path, child], newest)
