"""The composition root with a clock that the test advances. All other clocks show the time of the machine."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

from pydantic import BaseModel

from functions import wiring
from functions.messaging.queue_names import QUEUES, QueueProperties
from functions.settings import load_settings
from functions.workflow import Json, QueueStep, Results, Workflow, days
from functions.workflows.registry import Registration

_CLOCK = Path(os.environ["CLOCK_FILE"])


class Letter(BaseModel):
    """The payload, and the result of its step."""

    text: str


def _request(letter: Letter, _results: Results) -> Json:
    return {"text": letter.text}


def _output(_letter: Letter, results: Results) -> Json:
    return {"text": results[ANSWER].text}


ANSWER = QueueStep("answer", agent="payment", request=_request, result=Letter, complete_within=days(30))
LETTERS = Registration(Workflow("letters", payload=Letter, steps=[ANSWER], output=_output))


def _now() -> datetime:
    return datetime.now(UTC) + timedelta(days=float(_CLOCK.read_text()))


patch.object(wiring, "utc_now", _now).start()
patch.dict(QUEUES, {"agent-payment-requests": QueueProperties(15, days(60))}).start()

application = wiring.Wiring(load_settings(), [LETTERS])
application.prepare()

app = application.function_app()
