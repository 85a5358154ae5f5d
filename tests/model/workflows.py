"""The workflows of the searches, and the faults of each search."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import BaseModel

from functions.core.definition.step_definition import Step
from functions.core.definition.workflow_definition import Workflow
from tests.model.state import Left

TASK = "t"
#: Seconds of a step that ends within one tick, and within two, so that others are overdue while it runs.
_SHORT, _LONG = 20, 50


class Payload(BaseModel):
    """The payload of every task."""


@dataclass(frozen=True, slots=True)
class Search:
    """A workflow, the step that its service may refuse, and the faults and actions of the search."""

    workflow: Workflow[Payload]
    refused: str
    left: Left


def _step(name: str, *needs: Step[Any], **options: Any) -> Step[Any]:
    return Step(name, agent="a", needs=list(needs), request=lambda *_: {}, result=Payload, **options)


_OPEN = _step("open", undo=True, complete_within=_SHORT)
#: It must not be repeated, and has no undo.
_PAY = _step("pay", _OPEN, idempotent=False, complete_within=_LONG)
_LEFT = _step("left", _OPEN, undo=True, complete_within=_SHORT)
_PAY_BACK = _step("pay", _OPEN, idempotent=False, undo=True, complete_within=_SHORT)

_workflow = partial(Workflow, "w", payload=Payload)
_TWO = _workflow(steps=[_OPEN, _PAY], on_failure="compensate", on_exhausted="compensate")
_BACK = _workflow(steps=[_OPEN, _PAY_BACK], on_failure="compensate", on_exhausted="compensate")
_KEPT = _workflow(steps=[_OPEN, _LEFT, _PAY], on_failure="keep", on_exhausted="keep")
_SIDE_BY_SIDE = _workflow(steps=[_OPEN, _LEFT, _PAY], on_failure="compensate", on_exhausted="compensate")
_TIMED = _workflow(
    steps=[_OPEN, _PAY], on_failure="compensate", on_exhausted="compensate", complete_within=_LONG
)

SEARCHES = {
    "small": Search(_BACK, "pay", Left(crashes=1, refusals=1, actions=1)),
    "time limit": Search(_TIMED, "pay", Left(crashes=1, actions=1)),
    "operator": Search(_TWO, "pay", Left(late=1, refusals=1, actions=2)),
    "faults": Search(_TWO, "pay", Left(duplicates=1, crashes=1, late=1)),
    "kept side by side": Search(_KEPT, "pay", Left(duplicates=1, crashes=1, late=1, refusals=1)),
    "undone side by side": Search(_SIDE_BY_SIDE, "pay", Left(crashes=1, refusals=1)),
}
