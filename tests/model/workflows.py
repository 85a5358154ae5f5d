"""The workflows of the search, and what may go wrong with each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from functions.pattern.definition import Workflow
from functions.pattern.states import Remedy
from tests.fakes.workflows import step, workflow
from tests.model.state import Left

#: Seconds of a step, up to one tick; and up to two, so that others are overdue while it is awaited.
_SHORT, _LONG = 20, 50


@dataclass(frozen=True, slots=True)
class Search:
    """A workflow, the step that its service may refuse, and what is left to go wrong."""

    workflow: Workflow
    refused: str
    left: Left


_OPEN = step("open", undo=True, complete_within=_SHORT)
#: It must not be repeated.
_RIGHT = partial(step, "right", "open", idempotent=False, complete_within=_LONG)
_LEFT = step("left", "open", undo=True, complete_within=_SHORT)

_TWO = workflow(_OPEN, _RIGHT(), remedy=Remedy.COMPENSATE)
_SIDE_BY_SIDE = partial(workflow, _OPEN, _LEFT, _RIGHT())

SEARCHES = {
    "held side by side": Search(
        _SIDE_BY_SIDE(remedy=Remedy.HOLD), "right", Left(duplicates=1, crashes=1, refusals=1)
    ),
    "undone side by side": Search(
        _SIDE_BY_SIDE(remedy=Remedy.COMPENSATE), "right", Left(crashes=1, refusals=1)
    ),
    "operator": Search(_TWO, "right", Left(crashes=1, late=1, refusals=1, deeds=1)),
    "faults": Search(_TWO, "right", Left(duplicates=2, crashes=2, late=1)),
}
