"""A workflow of two steps whose Agents are called in a run. The test serves both services."""

from __future__ import annotations

from pydantic import BaseModel

from functions.workflow import Json, Results, Step, Workflow
from functions.workflows_next.registration import Registration


class Note(BaseModel):
    """The payload, and the result of each step."""

    text: str


def _first(note: Note, _results: Results) -> Json:
    return {"text": note.text}


FIRST = Step("first", request=_first, result=Note, complete_within=60)


def _second(_note: Note, results: Results) -> Json:
    return {"text": results[FIRST].text + "!"}


SECOND = Step("second", needs=[FIRST], request=_second, result=Note, complete_within=60)
NOTES = Registration(Workflow("notes", payload=Note, steps=[FIRST, SECOND], find_by=lambda note: [note.text]))
