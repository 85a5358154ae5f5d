"""The workflow `letters`: one step, whose Agent is in the process and takes no time."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel

from functions.agents.agent_catalog import setting_of
from functions.messaging.message_format import SubmissionMessage
from functions.workflow import Json, Results, Step, Workflow
from functions.workflows.registry import Registration
from local.bench.five_steps.workflow import NOBODY, IdleAgent
from local.bench.workloads import Workload

_LETTER: dict[str, object] = {"to": "A-1042", "text": "The parcel is on its way, and comes tomorrow."}


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
        payload=_LETTER,
        submitter="bench",
        submitted_at=datetime.now(UTC),
    )


def workload(shards: int) -> Workload:
    """Return the application with this workflow and with an event hub."""
    settings = {
        setting_of(POST.name, "URL"): NOBODY,
        "EventHubConnection": "UseDevelopmentEmulator=true",
        "SAMPLE_SERVICES": "0",
        "STATE_SHARDS": f"{shards}",
        # A busy machine exceeds the usual limit when up to 3,200 tasks wait for their first run.
        "PICK_UP_SECONDS": "300",
        # A sweep reads each shard, for which Azurite reads all rows of the table.
        "SUPERVISOR_SCHEDULE": "0 */2 * * * *",
    }
    app = Path(__file__).with_name("function_app.py")
    return Workload("stream", app, LETTERS.resource, _LETTER, "run_agents", settings)
