"""The workflow `letters`: one step, whose Agent is in the process and takes no time."""

from __future__ import annotations

from pydantic import BaseModel

from functions.agents.endpoints import url_setting
from functions.pattern.definition import Json, Step, Workflow
from functions.pattern.identity import StepName
from functions.pattern.states import Remedy
from functions.workflows.registration import Registration
from local.bench.five_steps.workflow import NOBODY, IdleAgent

_STEP = StepName("post")


class Letter(BaseModel):
    """The payload."""

    to: str
    text: str


#: What is sent as the order.
LETTER: dict[str, object] = {"to": "A-1042", "text": "The parcel is on its way, and comes tomorrow."}


def _request(letter: Letter, _results: object) -> Json:
    return letter.model_dump(mode="json")


LETTERS = Workflow(
    name="letters",
    resource="letters",
    payload=Letter,
    on_failure=Remedy.COMPENSATE,
    on_exhausted=Remedy.COMPENSATE,
    steps=(Step(_STEP, agent=_STEP, request=_request, complete_within=60),),
)
REGISTRATION = Registration(LETTERS, agents={_STEP: IdleAgent})
#: The settings that the app needs beside those of every application.
SETTINGS = {url_setting(_STEP): NOBODY}
