"""The workflow `letters`: one step, whose Agent is in the process and takes no time."""

from __future__ import annotations

from datetime import UTC, datetime

from pydantic import BaseModel

from functions.messaging.message_format import SubmissionMessage
from functions.workflow import Json, Results, Step, Workflow
from functions.workflows.registry import Registration
from local.bench.five_steps.workflow import IdleAgent


class Letter(BaseModel):
    """The payload."""

    to: str
    text: str


def _request(letter: Letter, _results: Results) -> Json:
    return letter.model_dump(mode="json")


POST = Step("post", request=_request, complete_within=60)
LETTERS = Workflow("letters", payload=Letter, steps=[POST])
REGISTRATION = Registration(LETTERS, agents={POST.name: IdleAgent})


def letter(task: str) -> SubmissionMessage:
    """Return an order with the id `task` that is submitted now."""
    return SubmissionMessage(
        task_id=task,
        workflow=LETTERS.name,
        payload={"to": "A-1042", "text": "The parcel is on its way, and comes tomorrow."},
        submitter="bench",
        submitted_at=datetime.now(UTC),
    )
