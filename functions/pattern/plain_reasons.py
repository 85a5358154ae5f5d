"""What callers are told of an error: what is known to hold nothing internal, and no more."""

from __future__ import annotations

import re

from functions.pattern.definition import NAME_PATTERN, STEP_PATTERN
from functions.pattern.depth import MOST_DEPTH

#: Stands for what may hold a defect's text, a remote service's answer, or an operator's words.
WITHHELD = "the operators know the reason"

#: How the errors begin that are our own; what follows is for operators.
_OF_A_STEP = (
    rf"{NAME_PATTERN} answered (\d{{3}}|more than \d+ bytes|what can't be used)",
    rf"{NAME_PATTERN} did not do it by complete-by",
    "not done within [0-9.]+ s",
    "still overdue",
    "its outcome is unknown",
    "outcome unknown",
    r"no event came by \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC",
    "it was done",
    r"its (request|result) (can't be written as JSON|has \d+ bytes; at most \d+ can be sent)",
    "its outcome can't be recorded",
    "its Agent can't undo",
    "circuit open",
)
_VERSION = rf"version \d+ of '{NAME_PATTERN}'"
_STEP = rf"step '{STEP_PATTERN}' of {_VERSION}"
_OF_A_TASK = (
    rf"{_VERSION} (is not deployed here|as it is deployed here is not the recorded one)",
    rf"{_STEP}(: its (Agent|workflow) '{NAME_PATTERN}')? is not deployed here",
    rf"{_STEP} has other items as it is deployed here",
    rf"the payload does not fit {_VERSION} as it is deployed here",
    "what it waited for is deployed$",
    "its complete-by time passed( before it was called)?$",
    "cancelled by its caller$",
    "its answer can't be given",
    "the task of which it is a step is undone$",
    "undone before it began$",
)
#: The step, behind those whose tasks are steps of others.
_PLACE = rf"(undo of )?({STEP_PATTERN}: ){{0,{MOST_DEPTH}}}"
_PLAIN = re.compile(
    rf"{_PLACE}({'|'.join(_OF_A_STEP)})(?!\w)|({'|'.join(_OF_A_TASK)})",
)


def plain_reason(error: str | None) -> str | None:
    """Give the part of an error that is for callers; None without any."""
    if error is None:
        return None
    plain = _PLAIN.match(error)
    return plain[0] if plain else WITHHELD
