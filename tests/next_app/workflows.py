"""A workflow of two steps for the new composition root."""

from __future__ import annotations

from pydantic import BaseModel

from functions.core.step_definition import Results, Step
from functions.core.workflow_definition import Workflow


class Note(BaseModel):
    """The payload, and the result of each step."""

    text: str


def _first(note: Note, _results: Results) -> dict[str, object]:
    return {"text": note.text}


FIRST = Step("first", agent="notes", request=_first, result=Note, complete_within=5)


def _second(_note: Note, results: Results) -> dict[str, object]:
    return {"text": results[FIRST].text + "!"}


SECOND = Step("second", agent="notes", needs=[FIRST], request=_second, result=Note, complete_within=5)
NOTES = Workflow("notes", payload=Note, steps=[FIRST, SECOND])
