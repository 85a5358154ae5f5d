"""The application with a workflow whose Agent, behind a queue, the test plays."""

from __future__ import annotations

import azure.functions as func
from pydantic import BaseModel

from functions.settings import load_settings
from functions.wiring import Wiring
from functions.workflow import Json, QueueStep, Results, Workflow
from functions.workflows.registration import Registration


class Letter(BaseModel):
    """The payload, and the result of its step."""

    text: str


def _request(letter: Letter, _results: Results) -> Json:
    return {"text": letter.text}


def _output(_letter: Letter, results: Results) -> Json:
    return {"text": results[ANSWER].text}


ANSWER = QueueStep("answer", agent="payment", request=_request, result=Letter, complete_within=60)
LETTERS = Registration(Workflow("letters", payload=Letter, steps=[ANSWER], output=_output))


application = Wiring(load_settings(), [LETTERS])
application.prepare()

app = func.FunctionApp(http_auth_level=func.AuthLevel.FUNCTION)
for blueprint in application.blueprints():
    app.register_functions(blueprint)
